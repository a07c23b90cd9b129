//! Makes connections that remember when they last served.
//!
//! A kept connection may be closed by the replica at the moment in which the next request is written to it. That it had
//! been unused for a while tells that case from a replica that dies on a request; the client library does not say.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Extensions, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tower_service::Service;

/// Silence after which the system asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Connects over TCP, without Nagle's delay.
#[derive(Clone, Debug)]
pub(super) struct KeptConnector {
    inner: HttpConnector,
    timeout: Duration,
}

/// When the last answer on the connection ended, or began if it has not ended; none if there was none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served(Arc<Mutex<Option<Instant>>>);

/// A connection.
#[derive(Debug)]
pub(super) struct Kept {
    io: TokioIo<TcpStream>,
    served: Served,
}

impl KeptConnector {
    /// A connector that gives up after `timeout`, the look-up of the name included.
    pub(super) fn new(timeout: Duration) -> Self {
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        inner.set_keepalive(Some(KEEPALIVE));
        Self { inner, timeout }
    }
}

impl Served {
    /// That of the connection on which an answer with these extensions came.
    pub(crate) fn of(answer: &Extensions) -> Self {
        answer.get::<Self>().cloned().unwrap_or_default()
    }

    /// An answer has begun, or ended.
    pub(crate) fn mark(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Since when the connection has been unused, as far as is known, if it was ever used.
    pub(super) fn last(connection: &Connected) -> Option<Instant> {
        let mut extensions = Extensions::new();
        connection.get_extras(&mut extensions);
        *extensions.get::<Self>()?.0.lock()
    }
}

impl Service<Uri> for KeptConnector {
    type Response = Kept;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Kept, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.inner.call(to);
        let timeout = self.timeout;
        Box::pin(async move {
            let io = tokio::time::timeout(timeout, connecting)
                .await
                .map_err(|_| format!("no connection in {} ms", timeout.as_millis()))??;
            Ok(Kept { io, served: Served::default() })
        })
    }
}

impl Connection for Kept {
    fn connected(&self) -> Connected {
        self.io.connected().extra(self.served.clone())
    }
}

impl Read for Kept {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Kept {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}
