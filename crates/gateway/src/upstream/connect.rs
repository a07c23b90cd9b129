//! Makes connections to replicas: TCP without Nagle's delay, with TLS where the address says `https`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

use super::origin::Cause;
use super::tls::Tls;
use crate::config::ReplicaUrl;

/// Silence after which the system asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Connects to one address.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    uri: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    http2: bool,
    timeout: Duration,
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connector {
    /// A connector that gives up after `timeout`, the look-up of the name and the handshake included.
    pub(super) fn new(url: &ReplicaUrl, http2: bool, tls: &Tls, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.enforce_http(false);
        let uri = Uri::builder().scheme(url.scheme()).authority(url.authority()).path_and_query("/").build();
        let name = || ServerName::try_from(url.host.clone()).expect("a checked host is a name or an address");
        Self {
            tcp,
            uri: uri.expect("a checked host and port make an address"),
            tls: url.is_tls.then(|| (tls.connector(http2), name())),
            http2,
            timeout,
        }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Stream, Cause> {
        let late = || format!("no connection in {} ms", self.timeout.as_millis());
        tokio::time::timeout(self.timeout, self.connect_at_leisure()).await.map_err(|_| late())?
    }

    async fn connect_at_leisure(&self) -> Result<Stream, Cause> {
        let mut tcp = self.tcp.clone();
        std::future::poll_fn(|cx| tcp.poll_ready(cx)).await?;
        let stream = tcp.call(self.uri.clone()).await?.into_inner();
        let Some((tls, name)) = &self.tls else { return Ok(Stream::Plain(stream)) };
        let stream = tls.connect(name.clone(), stream).await.map_err(|error| format!("tls: {error}"))?;
        if self.http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err("it does not speak http/2".into());
        }
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// `host:port`.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// `http` or `https`.
    pub(super) fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or("http")
    }
}

impl Stream {
    /// Whether nothing has come that nobody asked for, the end of the connection included.
    pub(super) fn is_quiet(&self) -> bool {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        let mut byte = [0];
        // Where the system has told nothing, this asks nothing.
        tcp.poll_peek(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte)).is_pending()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
}
