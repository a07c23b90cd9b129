//! HTTP/2 towards clients, by hyper: many requests share a connection, each in a task of its own.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::open::Connection;
use super::timer::Timer;
use super::{ConnectionLimits, KEEPALIVE};
use crate::request::body::RequestBody;
use crate::response::body::ResponseBody;

/// Requests at a time on one connection.
const STREAMS_MAX: u32 = 1_024;

/// A connection of which the beginning was read already.
#[derive(Debug)]
struct Begun<S> {
    read: Bytes,
    stream: S,
}

/// Serves a connection to its end. `begun` is it, and what was read of it.
pub(super) async fn serve<S, F, A>((stream, read): (S, Bytes), limits: ConnectionLimits, open: &Connection, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request<RequestBody>) -> A,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request: Request<_>| {
        has_asked.store(true, Ordering::Relaxed);
        let answer = answer(request.map(|body| RequestBody::Shared(body, Timer::default())));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .max_header_list_size(limits.head_bytes_max as u32)
        .max_concurrent_streams(STREAMS_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(Begun { read, stream }), service));
    let (mut timer, mut was_told) = (Timer::default(), false);
    let ended = poll_fn(|cx| {
        if open.is_to_end() && !std::mem::replace(&mut was_told, true) {
            connection.as_mut().graceful_shutdown();
        }
        let ended = connection.as_mut().poll(cx);
        // One that has begun no request in time is given up: the library does not watch it.
        if ended.is_pending() && !has_asked.load(Ordering::Relaxed) && timer.poll_over(limits.idle, cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        ended
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection ended");
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let bytes = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..bytes]);
        self.read.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
