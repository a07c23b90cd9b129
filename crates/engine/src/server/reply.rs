//! Responses: how they are made, and what may befall their bodies.
//!
//! A body knows its receipt, so that the books say how the request ended, and may be disturbed by an
//! injected fault on its way out.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::Sleep;

use super::error::ApiError;
use super::ledger::{Outcome, Receipt};
use super::line::{End, Line};
use super::stream::AnswerStream;

/// What a handler returns.
pub(super) type Reply = Response<ReplyBody>;

/// See the module.
pub(super) struct ReplyBody {
    content: Content,
    disturbance: Disturbance,
    receipt: Option<Receipt>,
}

enum Content {
    /// Known at once.
    Whole(Full<Bytes>),
    /// As the engine has it.
    Stream(Box<AnswerStream>),
}

/// What befalls a body.
pub(super) enum Disturbance {
    /// Nothing.
    None,
    /// Every chunk waits.
    Slow {
        /// So long.
        pause: Duration,
        /// The wait that goes on.
        sleep: Option<Pin<Box<Sleep>>>,
    },
    /// It ends too early.
    Cut {
        /// After so many more chunks.
        chunks_left: u32,
        /// In this way.
        how: Cut,
    },
}

/// How a body ends that ends too early.
pub(super) enum Cut {
    /// As if it were whole.
    Clean,
    /// With an error in the words of the API, as when the engine gives up. An answer that is no stream
    /// has no words for that and ends as if it were whole.
    Error,
    /// With its connection.
    Line(Arc<Line>, End),
}

/// Nothing but the status.
pub(super) fn empty() -> Reply {
    Response::new(ReplyBody::new(Content::Whole(Full::default())))
}

pub(super) fn json(body: Vec<u8>) -> Reply {
    reply(StatusCode::OK, "application/json", body)
}

pub(super) fn text(body: impl Into<Bytes>) -> Reply {
    reply(StatusCode::OK, "text/plain; charset=utf-8", body)
}

pub(super) fn stream(stream: AnswerStream) -> Reply {
    let mut reply = Response::new(ReplyBody::new(Content::Stream(Box::new(stream))));
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

pub(super) fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::new(Content::Whole(Full::new(body.into()))));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

impl ReplyBody {
    fn new(content: Content) -> Self {
        Self { content, disturbance: Disturbance::None, receipt: None }
    }

    /// Lets something befall it.
    pub(super) fn disturb(&mut self, disturbance: Disturbance) {
        self.disturbance = disturbance;
    }

    /// Books the request's end when the body ends.
    pub(super) fn book(&mut self, receipt: Receipt) {
        self.receipt = Some(receipt);
    }

    fn settle(&mut self, outcome: Outcome) {
        if let Some(receipt) = &mut self.receipt {
            receipt.settle(outcome);
        }
    }

    /// Waits, if every chunk has to.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Disturbance::Slow { pause, sleep } = &mut self.disturbance else { return Poll::Ready(()) };
        let running = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(*pause)));
        ready!(running.as_mut().poll(context));
        Poll::Ready(())
    }

    /// Ends the body too early.
    fn cut(&mut self) -> Poll<Option<Bytes>> {
        self.settle(Outcome::Failed);
        match (&self.disturbance, &mut self.content) {
            (Disturbance::Cut { how: Cut::Line(line, end), .. }, _) => {
                line.end(*end);
                // Whoever runs the connection does the rest.
                Poll::Pending
            }
            (Disturbance::Cut { how: Cut::Error, .. }, Content::Stream(stream)) => {
                Poll::Ready(stream.fail(&ApiError::Injected(StatusCode::INTERNAL_SERVER_ERROR)))
            }
            _ => Poll::Ready(None),
        }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if matches!(self.disturbance, Disturbance::Cut { chunks_left: 0, .. }) {
            return self.cut();
        }
        ready!(self.poll_pause(context));
        let mut bytes = match &mut self.content {
            Content::Whole(full) => match ready!(Pin::new(full).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().ok(),
                None => None,
            },
            Content::Stream(stream) => ready!(stream.poll_next(context)),
        };
        match (&mut self.disturbance, &self.content, &mut bytes) {
            // The pause of the next chunk begins with it.
            (Disturbance::Slow { sleep, .. }, ..) => *sleep = None,
            (Disturbance::Cut { chunks_left, .. }, Content::Whole(_), Some(bytes)) => {
                *chunks_left = 0;
                bytes.truncate(bytes.len() / 2);
            }
            (Disturbance::Cut { chunks_left, .. }, Content::Stream(_), Some(_)) => *chunks_left -= 1,
            _ => {}
        }
        Poll::Ready(bytes)
    }

    /// Whether all was sent, and how it went.
    fn outcome(&self) -> Option<Outcome> {
        match &self.content {
            Content::Whole(full) => full.is_end_stream().then_some(Outcome::Finished),
            Content::Stream(stream) if stream.has_failed() => Some(Outcome::Failed),
            Content::Stream(stream) => stream.is_over().then_some(Outcome::Finished),
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let bytes = ready!(this.poll_bytes(context));
        let cut = matches!(this.disturbance, Disturbance::Cut { chunks_left: 0, .. });
        if let Some(outcome) = this.outcome().filter(|_| !cut) {
            this.settle(outcome);
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(full) => full.size_hint(),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
