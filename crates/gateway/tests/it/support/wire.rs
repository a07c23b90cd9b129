//! HTTP/1.1 as bytes on a socket, where a library would hide what a test is about: how a body is framed, and how it ends.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::soon;

/// One end of a connection.
pub(crate) struct Wire(BufReader<TcpStream>);

/// A request's or answer's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// The first line.
    pub(crate) line: String,
    /// Names in lower case, with their values, in their order.
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// The value of the only header of that name.
    ///
    /// # Panics
    /// There are several.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} is repeated: {self:?}");
        first
    }

    /// Whether the headers frame the body in exactly one way, or there is none.
    fn is_chunked(&self) -> bool {
        let (length, coding) = (self.header("content-length"), self.header("transfer-encoding"));
        assert!(length.is_none() || coding.is_none(), "two framings: {self:?}");
        coding == Some("chunked")
    }
}

impl Wire {
    pub(crate) fn new(socket: TcpStream) -> Self {
        // A piece must leave when it is written, or a test of small writes tests the kernel's patience.
        socket.set_nodelay(true).unwrap();
        Self(BufReader::new(socket))
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::new(soon(TcpStream::connect(address)).await.unwrap())
    }

    /// Writes the bytes as they are.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref()).await
    }

    /// The next head; `None` if the peer has closed instead.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        let mut head = Head::default();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                return if head.line.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            match line.trim_end() {
                "" => return Ok(Some(head)),
                line if head.line.is_empty() => head.line = line.to_owned(),
                line => {
                    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line}"));
                    head.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
            }
        }
    }

    /// The body that follows the head; an error if it ends before it is complete.
    pub(crate) async fn body(&mut self, head: &Head) -> io::Result<Bytes> {
        let mut body = Vec::new();
        if head.is_chunked() {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut body).await?;
        }
        Ok(body.into())
    }

    /// The next chunk of a chunked body; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let Ok(size) = usize::from_str_radix(line.trim_end(), 16) else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("no chunk size: {line:?}")));
        };
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).await?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk without its end: {chunk:?}");
        chunk.truncate(size);
        Ok((size > 0).then(|| chunk.into()))
    }

    /// Everything until the peer closes the connection; an error if it resets it.
    pub(crate) async fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await?;
        Ok(rest)
    }

    /// Waits until the peer has closed or reset the connection.
    pub(crate) async fn closed(&mut self) {
        let _ = self.rest().await;
    }

    /// Ends the connection by a reset in place of a close.
    pub(crate) fn reset(self) {
        self.0.get_ref().set_zero_linger().unwrap();
    }
}
