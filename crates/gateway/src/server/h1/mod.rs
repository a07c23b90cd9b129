//! HTTP/1.1 towards clients: one task reads a request, answers it and writes the answer, one request after the other.
//!
//! There is no other task, no channel and no copy: whoever answers reads the body from the connection when it wants it,
//! and a body that came with its head is there already. Not reading is what holds a client up. The edges:
//!
//! - A client that closes while it is answered has left, and what answers it is dropped. One that sends its next request
//!   meanwhile has it wait.
//! - A body that nobody has read to its end is taken and dropped within limits, or the connection is closed; before
//!   that what still comes is dropped for a while, since a reset could take the answer from the client (RFC 9112, 9.6).
//! - What is no request is answered with what is wrong, and is the last on its connection.
//!
//! What bytes mean is [`kvroute_wire::http1`]'s.

mod answer;
mod body;
mod io;
mod leave;
mod outgoing;
#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use http_body::Body as _;
use kvroute_wire::http1::{AnswerBody, BadRequest, Connection as Keep, RequestHead, write_answer};
use parking_lot::Mutex;

use self::answer::Written;
pub(crate) use self::body::{Body, BodyError};
pub(super) use self::io::Io;
use self::outgoing::Outgoing;
use super::date::Date;
use super::open::Connection;
use crate::request::body::{DISCARD_BYTES_MAX, RequestBody};
use crate::response::body::ResponseBody;

/// What a request says of its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    version: Version,
    is_head: bool,
    keeps_alive: bool,
}

/// What lives as long as the connection, so that requests need not make it anew.
struct Session<'c> {
    io: Arc<Mutex<Io>>,
    open: &'c Connection,
    out: Outgoing,
    date: Date,
    /// The headers of the last answer, for their memory.
    spare: HeaderMap,
}

/// Serves a connection to its end.
pub(super) async fn serve<F, A>(io: Io, open: &Connection, answer: F)
where
    F: Fn(Request<RequestBody>) -> A,
    A: Future<Output = Response<ResponseBody>>,
{
    let io = Arc::new(Mutex::new(io));
    let mut session = Session { io, open, out: Outgoing::default(), date: Date::new(), spare: HeaderMap::new() };
    while let Some((asked, request)) = session.next().await {
        let answered = pin!(answer(request));
        let Some(response) = session.unless_gone(answered).await else { return };
        if !session.write(asked, response).await {
            return;
        }
    }
}

impl Session<'_> {
    /// The next request. What is none is answered here.
    async fn next(&mut self) -> Option<(Asked, Request<RequestBody>)> {
        let head = poll_fn(|cx| self.io.lock().poll_next(&mut self.spare, self.open, cx)).await;
        let RequestHead { request, framing, keeps_alive, expects_continue } = match head {
            Ok(head) => head?,
            Err(bad) => {
                self.refuse(bad).await;
                return None;
            }
        };
        self.io.lock().begin(framing, expects_continue);
        let (version, is_head) = (request.version(), request.method() == Method::HEAD);
        let body = RequestBody::Alone(Body(self.io.clone()));
        Some((Asked { version, is_head, keeps_alive }, request.map(|()| body)))
    }

    /// The answer, unless the client leaves before.
    async fn unless_gone<A: Future>(&self, mut answer: std::pin::Pin<&mut A>) -> Option<A::Output> {
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => self.io.lock().poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Writes the answer. Says whether another request may follow.
    async fn write(&mut self, asked: Asked, response: Response<ResponseBody>) -> bool {
        let (mut head, body) = response.into_parts();
        let framing = AnswerBody::of(head.status, body.size_hint().exact(), asked.is_head, asked.version);
        let keeps = asked.keeps_alive
            && framing != AnswerBody::UntilClose
            && !self.open.is_to_end()
            && head.headers.get(header::CONNECTION).is_none_or(|said| said != "close")
            && self.may_go_on();
        let keep = match asked.version {
            _ if !keeps => Keep::Closes,
            Version::HTTP_10 => Keep::StaysInHttp10,
            _ => Keep::Stays,
        };
        let interim = self.io.lock().rest_of_interim();
        self.out.text(|text| {
            text.extend_from_slice(interim);
            let date = || self.date.at(SystemTime::now());
            write_answer(text, head.status, &head.headers, framing, keep, date);
        });
        self.spare = std::mem::take(&mut head.headers);
        // At once: its values hold what was read from the replica.
        self.spare.clear();
        match answer::write(&self.io, &mut self.out, framing, body).await {
            Written::Gone => false,
            Written::Broken => {
                if framing == AnswerBody::UntilClose {
                    self.io.lock().reset();
                }
                false
            }
            Written::Whole if !keeps => {
                leave::close(&self.io, self.open).await;
                false
            }
            Written::Whole => {
                let goes_on = leave::discard(&self.io, self.open).await;
                self.io.lock().end();
                goes_on
            }
        }
    }

    /// Whether what is left of the request's body can be taken, so that another request can follow.
    fn may_go_on(&self) -> bool {
        let io = self.io.lock();
        io.is_body_taken() || (io.is_body_coming() && io.body_bytes_left() <= DISCARD_BYTES_MAX)
    }

    /// Says what is wrong with what should have been a request.
    async fn refuse(&mut self, bad: BadRequest) {
        tracing::debug!(status = bad.status.as_u16(), error = bad.message, "no request");
        let mut response = Response::new(ResponseBody::full(format!("{}\n", bad.message)));
        *response.status_mut() = bad.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let asked = Asked { version: Version::HTTP_11, is_head: false, keeps_alive: false };
        self.write(asked, response).await;
    }
}
