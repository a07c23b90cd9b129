//! One request and its answer, timed.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    answer::Answer,
    client::{Client, with_causes},
    failure::{Failure, FailureKind},
    framing::Framing,
};
use crate::workload::Request;

/// Name of the replica that answered.
const REPLICA: HeaderName = HeaderName::from_static("x-kvroute-replica");
/// Why it was chosen: a reason, possibly followed by details.
const DECISION: HeaderName = HeaderName::from_static("x-kvroute-decision");

/// Bytes read of an answer with an error status.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Time for the end of the body after `[DONE]`. Reading it lets the connection be used again, but
/// the answer is whole already and a server that holds the connection open must not hold the slot.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// What a request met, whether it succeeded or not.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) sent_at: Instant,
    pub(super) answer: Answer,
    pub(super) replica: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) result: Result<(), Failure>,
}

impl Exchange {
    /// Sends the request and reads the answer to its end, for at most `limit`.
    pub(super) async fn perform(client: &Client, request: &Request, limit: Duration) -> Self {
        let mut exchange = Self {
            sent_at: Instant::now(),
            answer: Answer::new(request.keep_answer),
            replica: None,
            decision: None,
            result: Ok(()),
        };
        let read = timeout(limit, exchange.run(client, request)).await;
        exchange.result = read.unwrap_or_else(|_| {
            let message = format!("no end of the answer within {limit:?}");
            Err(Failure::new(FailureKind::Timeout, &message))
        });
        exchange
    }

    async fn run(&mut self, client: &Client, request: &Request) -> Result<(), Failure> {
        let response = client.send(request).await?;
        self.replica = first_word(response.headers(), &REPLICA);
        self.decision = first_word(response.headers(), &DECISION);
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let mut framing = Framing::of(response.headers())?;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::new(FailureKind::Broken, &with_causes(&error)))?;
            if let Some(data) = frame.data_ref() {
                let now = self.sent_at.elapsed();
                framing.push(data, |event| self.answer.event(event, now))?;
            }
            if self.answer.done {
                read_to_end(body).await;
                break;
            }
        }
        self.answer.complete()
    }
}

/// The value up to the first separator: routers may put details behind a reason.
fn first_word(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    let word = value.split([';', ',', ' ']).next()?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// The failure that an error status is, with the head of its body as message.
async fn refusal(response: Response<Incoming>) -> Failure {
    let kind = FailureKind::Status(response.status().as_u16());
    let mut body = response.into_body();
    let mut head = Vec::new();
    while head.len() < ERROR_BYTES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => head.extend_from_slice(frame.data_ref().map_or(&[], |d| d)),
            Some(Err(_)) | None => break,
        }
    }
    Failure::from_bytes(kind, &head)
}

async fn read_to_end(mut body: Incoming) {
    let until = Instant::now() + CLOSE_TIMEOUT;
    while let Ok(Some(Ok(_))) = timeout_at(until, body.frame()).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_first_word_of_its_header() {
        let cases = [
            ("prefix_hit", Some("prefix_hit")),
            ("spill_cost; matched=12", Some("spill_cost")),
            ("cold,x", Some("cold")),
            ("", None),
        ];
        for (value, reason) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(&DECISION, value.parse().unwrap());
            assert_eq!(first_word(&headers, &DECISION).as_deref(), reason);
        }
    }

    #[test]
    fn the_content_type_tells_the_framing() {
        let cases = [
            ("text/event-stream; charset=utf-8", Some(false)),
            ("Text/Event-Stream", Some(false)),
            ("application/vnd.amazon.eventstream", Some(true)),
            ("application/json", None),
            ("", None),
        ];
        for (content_type, frames) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::CONTENT_TYPE, content_type.parse().unwrap());
            let found = Framing::of(&headers).ok();
            let found = found.map(|framing| matches!(framing, Framing::Frames(..)));
            assert_eq!(found, frames, "{content_type}");
        }
    }
}
