//! Passes a replica's answer on: untouched on the OpenAI API, in SageMaker's terms on the native one.
//!
//! An answer that breaks off must not look complete. A native stream ends with an exception frame; an event stream on
//! the OpenAI API gets an error event, if what was passed ends between two events, and then the connection is aborted;
//! anything else is aborted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use kvroute_wire::eventstream;
use kvroute_wire::openai::ErrorBody;
use kvroute_wire::response::EventCutter;
use kvroute_wire::sagemaker::{ServiceError, StreamErrorCode, StreamException, header as names};

use tokio::time::Sleep;

use super::body::{BoxError, ResponseBody};
use super::exchange::Exchange;
use super::observer::Observer;
use crate::request::call::{Api, Inference};
use crate::request::headers;
use crate::upstream::{Answer, AnswerError};

/// How much of a replica's error is read to be told on.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How long that may take.
const ERROR_TIME_MAX: Duration = Duration::from_secs(5);

/// Of a container's answer, what a native client gets to see.
const NATIVE: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    HeaderName::from_static(names::CUSTOM_ATTRIBUTES),
    HeaderName::from_static(names::NEW_SESSION_ID),
    HeaderName::from_static(names::CLOSED_SESSION_ID),
    HeaderName::from_static("x-request-id"),
];

/// The answer to the client, its body still to come.
pub(crate) async fn answer(
    call: &Inference,
    response: Response<Answer>,
    mut exchange: Exchange,
) -> Response<ResponseBody> {
    let (mut head, body) = response.into_parts();
    exchange.answered(head.status);
    // The version is the replica's connection's: answered in HTTP/1.0, the client could not see a body break off.
    head.version = Version::HTTP_11;
    if call.api == Api::SageMaker {
        if !head.status.is_success() {
            return Box::pin(model_error(head, body, exchange)).await;
        }
        let is_eventstream = call.streams;
        let headers = native_headers(&head.headers, &exchange, is_eventstream);
        let observer = Observer::of(&head.headers);
        head.headers = headers;
        let framing = if is_eventstream { Framing::EventStream } else { Framing::AsIs };
        return Response::from_parts(head, Relay::start(body, exchange, observer, framing, call.is_gone_on_with()));
    }
    let observer = Observer::of(&head.headers);
    head.headers = headers::of_answer(head.headers);
    exchange.name_in(&mut head.headers);
    // An event that is added to a body of known length could fill it up, and so make it look complete.
    let is_open_ended = body.size_hint().exact().is_none();
    let framing = if observer.is_stream() && is_open_ended { Framing::ServerSentEvents } else { Framing::AsIs };
    Response::from_parts(head, Relay::start(body, exchange, observer, framing, call.is_gone_on_with()))
}

fn native_headers(answer: &HeaderMap, exchange: &Exchange, is_eventstream: bool) -> HeaderMap {
    exchange.keep_session(answer);
    let mut headers = HeaderMap::with_capacity(8);
    for name in &NATIVE {
        if let Some(value) = answer.get(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
    if is_eventstream {
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::CONTENT_ENCODING);
        if let Some(media_type) =
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(eventstream::CONTENT_TYPE))
        {
            headers.insert(names::SAGEMAKER_CONTENT_TYPE, media_type);
        }
    }
    if let Ok(variant) = HeaderValue::try_from(&*exchange.target().labels.variant) {
        headers.insert(names::INVOKED_PRODUCTION_VARIANT, variant);
    }
    exchange.name_in(&mut headers);
    headers
}

/// What a native client is told where the container answered with an error: that it is busy, or SageMaker's ModelError
/// around what it said.
async fn model_error(head: http::response::Parts, body: Answer, mut exchange: Exchange) -> Response<ResponseBody> {
    let original_message = beginning_of(body).await;
    let replica = &exchange.target().labels.replica;
    let (status, message) = (head.status, |what: &str| format!("{what} replica {replica}: {original_message}"));
    let error = match status {
        StatusCode::TOO_MANY_REQUESTS => ServiceError::Throttling { message: message("refused by") },
        StatusCode::SERVICE_UNAVAILABLE => ServiceError::ServiceUnavailable { message: message("refused by") },
        _ => {
            let fault = if status.is_client_error() { "client" } else { "server" };
            let message = message(&format!("received {fault} error ({}) from", status.as_u16()));
            let original_status = status.as_u16();
            ServiceError::ModelError { message, original_status, original_message, log_stream_arn: String::new() }
        }
    };
    let reply = error.reply();
    let mut response = Response::new(ResponseBody::full(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(names::ERROR_TYPE, HeaderValue::from_static(reply.error_type));
    if let Some(wait) = head.headers.get(header::RETRY_AFTER) {
        headers.insert(header::RETRY_AFTER, wait.clone());
    }
    exchange.name_in(headers);
    exchange.complete(None);
    exchange.translated(response.status());
    response
}

/// What a body says, as far as it is of use and comes in time.
async fn beginning_of(mut body: Answer) -> String {
    let mut said = Vec::new();
    let read = async {
        while said.len() < ERROR_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            if let Ok(piece) = frame.into_data() {
                said.extend_from_slice(&piece);
            }
        }
    };
    // What has come by then is told on.
    let _ = tokio::time::timeout(ERROR_TIME_MAX, read).await;
    String::from_utf8_lossy(&said).into_owned()
}

/// How an answer is framed for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Nothing can be added.
    AsIs,
    /// Events can be added between events.
    ServerSentEvents,
    /// Every event in a frame of an AWS event stream, or every piece where there are no events.
    EventStream,
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Relay {
    replica: Answer,
    exchange: Exchange,
    observer: Observer,
    framing: Framing,
    /// Cuts the events of a native stream.
    cutter: Option<EventCutter>,
    /// Whether its end shows only as the end of the connection, as the end of a replica does too.
    ends_with_connection: bool,
    /// Whether later requests may refer to the answer, whose id has not passed yet.
    is_gone_on_with: bool,
    /// The last bytes that passed, newest last.
    tail: [u8; 4],
    stage: Stage,
    idle: Idle,
}

/// Watches that the replica goes on. Costs nothing while it does: only a poll that finds nothing looks at the time.
#[derive(Debug)]
struct Idle {
    limit: Duration,
    last_piece: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self { limit, last_piece: Instant::now(), timer: None }
    }

    /// Ready once nothing has come for too long.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        while timer.as_mut().poll(cx).is_ready() {
            let quiet = self.last_piece.elapsed();
            if quiet >= limit {
                return Poll::Ready(());
            }
            timer.as_mut().reset(tokio::time::Instant::now() + (limit - quiet));
        }
        Poll::Pending
    }
}

/// Why an answer is not complete.
#[derive(Debug)]
enum Break {
    /// The connection broke.
    Connection(AnswerError),
    /// It ended, but not in the way in which a stream ends.
    NoEndMark,
    /// Nothing came for this long.
    Idle(Duration),
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::NoEndMark => f.write_str("the connection ended before the end mark of the stream"),
            Self::Idle(limit) => write!(f, "nothing came for {} ms", limit.as_millis()),
        }
    }
}

impl std::error::Error for Break {}

/// How far an answer is.
#[derive(Debug)]
enum Stage {
    /// The replica is still answering.
    Passing,
    /// The replica broke off: what was passed, and what the client was told, must get out before the connection ends.
    /// hyper writes when a body has nothing to give, and drops what it has not written when a body fails.
    Breaking(Option<Break>),
    /// What was passed is out.
    Broken(Option<Break>),
    /// Nothing follows.
    Ended,
}

impl Drop for Relay {
    /// A client may close on the end mark of a stream, before the end of its body has come.
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Passing) && self.observer.has_end_mark() {
            self.end();
        }
    }
}

impl Relay {
    /// The body that passes on what `replica` answers.
    fn start(
        replica: Answer,
        mut exchange: Exchange,
        observer: Observer,
        framing: Framing,
        is_gone_on_with: bool,
    ) -> ResponseBody {
        let mut stage = Stage::Passing;
        if replica.is_end_stream() {
            // A body of no bytes is never asked for.
            exchange.complete(None);
            stage = Stage::Ended;
        }
        let tail = *b"\n\n\n\n";
        let idle = Idle::new(exchange.idle_limit());
        let ends_with_connection = replica.ends_with_connection();
        let cutter = (framing == Framing::EventStream && observer.is_stream()).then(EventCutter::default);
        ResponseBody::Relay(Box::new(Self {
            replica,
            exchange,
            observer,
            framing,
            cutter,
            ends_with_connection,
            is_gone_on_with,
            tail,
            stage,
            idle,
        }))
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.stage {
            Stage::Passing => {}
            Stage::Breaking(error) => {
                self.stage = Stage::Broken(error.take());
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Stage::Broken(error) => {
                let error = error.take();
                self.stage = Stage::Ended;
                return Poll::Ready(error.map(|error| Err(error.into())));
            }
            Stage::Ended => return Poll::Ready(None),
        }
        let broken = loop {
            match Pin::new(&mut self.replica).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match self.pass(frame) {
                    // What came is held until its event is complete.
                    Some(frame) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                    passed => return Poll::Ready(passed.map(Ok)),
                },
                Poll::Ready(Some(Err(error))) => break Break::Connection(error),
                Poll::Ready(None) if self.ends_with_connection && self.observer.misses_end_mark() => {
                    break Break::NoEndMark;
                }
                Poll::Ready(None) => {
                    self.end();
                    return Poll::Ready(self.rest().map(Ok));
                }
                Poll::Pending => {
                    ready!(self.idle.poll_expired(cx));
                    break Break::Idle(self.idle.limit);
                }
            }
        };
        match self.break_off(broken) {
            Some(told) => Poll::Ready(Some(Ok(told))),
            None => self.poll_frame(cx),
        }
    }

    fn pass(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let piece = match frame.into_data() {
            Ok(piece) => piece,
            Err(trailers) => {
                // Nothing follows trailers, and nobody asks whether something does.
                self.end();
                return if self.framing == Framing::EventStream { self.rest() } else { Some(trailers) };
            }
        };
        self.idle.last_piece = Instant::now();
        self.exchange.passed(self.observer.feed(&piece));
        if self.is_gone_on_with
            && let Some(id) = self.observer.id()
        {
            // At once: the client may go on before it has read to the end.
            self.exchange.keep_response(id);
            self.is_gone_on_with = false;
        }
        if self.replica.is_end_stream() {
            // With a known length nobody asks again after the last byte.
            self.end();
        }
        if self.framing == Framing::EventStream {
            return Some(Frame::data(self.framed(&piece)));
        }
        let (_, end) = piece.split_at(piece.len().saturating_sub(self.tail.len()));
        let kept = self.tail.len() - end.len();
        self.tail.rotate_right(kept);
        self.tail[kept..].copy_from_slice(end);
        Some(Frame::data(piece))
    }

    /// The parts of a native stream that a piece completes.
    fn framed(&mut self, piece: &[u8]) -> Bytes {
        let mut framed = BytesMut::new();
        match &mut self.cutter {
            Some(cutter) => {
                cutter.feed(piece, |event| eventstream::write_payload(event, &mut framed));
                if matches!(self.stage, Stage::Ended) {
                    eventstream::write_payload(&cutter.rest(), &mut framed);
                }
            }
            None => eventstream::write_payload(piece, &mut framed),
        }
        framed.freeze()
    }

    /// What is held of a native stream that has ended.
    fn rest(&mut self) -> Option<Frame<Bytes>> {
        let rest = self.cutter.as_mut().map(EventCutter::rest).filter(|rest| !rest.is_empty())?;
        let mut framed = BytesMut::new();
        eventstream::write_payload(&rest, &mut framed);
        Some(Frame::data(framed.freeze()))
    }

    fn end(&mut self) {
        self.exchange.complete(self.observer.usage());
        self.stage = Stage::Ended;
    }

    /// Ends the answer so that the client can see that it is not complete; gives what is left to say.
    fn break_off(&mut self, broken: Break) -> Option<Frame<Bytes>> {
        self.exchange.broke_off(self.observer.usage(), &broken);
        let message =
            format!("replica {} broke off in the middle of its answer", self.exchange.target().labels.replica);
        let is_between_events = self.tail.ends_with(b"\n\n") || self.tail == *b"\r\n\r\n";
        self.stage = Stage::Breaking(Some(broken));
        match self.framing {
            Framing::EventStream => {
                let mut framed = BytesMut::new();
                if let Some(cutter) = &mut self.cutter {
                    eventstream::write_payload(&cutter.rest(), &mut framed);
                }
                let code = StreamErrorCode::StreamBroken;
                StreamException::ModelStreamError { code, message }.write(&mut framed);
                self.stage = Stage::Ended;
                Some(Frame::data(framed.freeze()))
            }
            Framing::ServerSentEvents if is_between_events => {
                let code = Some("stream_broken");
                let body = ErrorBody { message: &message, error_type: "server_error", param: None, code };
                Some(Frame::data([&b"data: "[..], &body.render(), b"\n\n"].concat().into()))
            }
            Framing::AsIs | Framing::ServerSentEvents => None,
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match (self.framing, &self.stage) {
            (Framing::EventStream, _) => SizeHint::default(),
            (_, Stage::Passing) => self.replica.size_hint(),
            (_, Stage::Breaking(_) | Stage::Broken(_)) => SizeHint::default(),
            (_, Stage::Ended) => SizeHint::with_exact(0),
        }
    }
}
