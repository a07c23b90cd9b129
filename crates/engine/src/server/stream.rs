//! An answer as server-sent events, one for each token, at the moment the engine has it.
//!
//! The first token brings the opening event along: until then only headers have been sent, so that
//! a client's first byte is its first token. The last token's event has the finish reason; usage
//! follows if it was asked for, then `[DONE]`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde::Serialize;

use super::driver::Progress;
use super::error::ApiError;
use super::generate::{Answer, Api};
use super::response::{ChatChunkChoice, Chunk, CompletionChunkChoice, Delta, FINGERPRINT};
use crate::model::FinishReason;
use crate::vocab::Vocab;

/// The body of a streamed answer. Dropped by the server when the client goes, which aborts.
pub(super) struct AnswerStream {
    answer: Answer,
    tokens: u32,
    ended: bool,
}

const DONE: &[u8] = b"data: [DONE]\n\n";

impl AnswerStream {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, tokens: 0, ended: false }
    }

    /// The event of the next token; before it, for the first, the opening one.
    fn token(&mut self) -> Vec<u8> {
        let sequence = &self.answer.job.sequence;
        let token = sequence.answer_token(self.tokens);
        let text = Vocab::shared().token_bytes(token).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let first = self.tokens == 0;
        self.tokens += 1;
        // Known without waiting for the engine to say so.
        let last = self.tokens == sequence.answer_tokens();
        let finish_reason = last.then(|| sequence.ending().as_str());
        let token_ids = self.answer.job.return_token_ids.then_some([token]);
        let mut out = Vec::with_capacity(512);
        match self.answer.job.api {
            Api::Chat => {
                if first {
                    self.chat_opening(&mut out);
                }
                let choice = ChatChunkChoice {
                    index: 0,
                    delta: Delta { role: None, content: &text },
                    logprobs: (),
                    finish_reason,
                    stop_reason: last.then_some(()),
                    token_ids: Some(token_ids),
                };
                put_event(&mut out, &self.chunk(&[choice], last));
            }
            Api::Completion => {
                let prompt_token_ids = if first { self.answer.prompt_token_ids() } else { None };
                let choice = CompletionChunkChoice {
                    index: 0,
                    text: &text,
                    logprobs: (),
                    finish_reason,
                    stop_reason: (),
                    prompt_token_ids,
                    token_ids,
                };
                put_event(&mut out, &self.chunk(&[choice], last));
            }
        }
        out
    }

    /// A chat begins with an event that says who speaks.
    fn chat_opening(&self, out: &mut Vec<u8>) {
        let choice = ChatChunkChoice {
            index: 0,
            delta: Delta { role: Some("assistant"), content: "" },
            logprobs: (),
            finish_reason: None,
            stop_reason: None,
            token_ids: None,
        };
        let mut chunk = self.chunk(std::slice::from_ref(&choice), false);
        chunk.prompt_token_ids = Some(self.answer.prompt_token_ids());
        put_event(out, &chunk);
    }

    fn chunk<'a, C>(&'a self, choices: &'a [C], last: bool) -> Chunk<'a, C> {
        Chunk {
            id: &self.answer.id,
            object: match self.answer.job.api {
                Api::Chat => "chat.completion.chunk",
                Api::Completion => "text_completion",
            },
            created: self.answer.created,
            model: &self.answer.model,
            choices,
            usage: None,
            // Goes with the last event before the end, whichever that is.
            system_fingerprint: (last && !self.answer.job.include_usage).then_some(FINGERPRINT),
            prompt_token_ids: None,
        }
    }

    fn end(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        if self.answer.job.include_usage {
            let mut chunk = self.chunk::<()>(&[], true);
            chunk.usage = Some(self.answer.usage(self.tokens));
            chunk.system_fingerprint = Some(FINGERPRINT);
            put_event(&mut out, &chunk);
        }
        out.extend_from_slice(DONE);
        out
    }

    fn failure(error: &ApiError) -> Vec<u8> {
        let mut out = b"data: ".to_vec();
        out.extend_from_slice(error.to_json().as_bytes());
        out.extend_from_slice(b"\n\n");
        out.extend_from_slice(DONE);
        out
    }
}

impl Body for AnswerStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let bytes = loop {
            match ready!(this.answer.ticket.poll_progress(context)) {
                Some(Progress::Scheduled { cached_tokens }) => this.answer.cached_tokens = cached_tokens,
                Some(Progress::Token) => break this.token(),
                Some(Progress::Finished(reason)) => {
                    this.ended = true;
                    break match reason {
                        FinishReason::Stop | FinishReason::Length => this.end(),
                        FinishReason::Rejected => Self::failure(&ApiError::bad("request does not fit into the engine")),
                        FinishReason::Aborted => Self::failure(&ApiError::EngineGone),
                    };
                }
                None => {
                    this.ended = true;
                    break Self::failure(&ApiError::EngineGone);
                }
            }
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes)))))
    }
}

fn put_event(out: &mut Vec<u8>, event: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    // Neither the writer nor these shapes can fail.
    let _ = serde_json::to_writer(&mut *out, event);
    out.extend_from_slice(b"\n\n");
}
