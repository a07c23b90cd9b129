//! Ending a connection from within a request.
//!
//! The server library gives a handler no way to drop its connection without a proper end of the
//! answer. A handler that wants that says so here and waits; whoever runs the connection takes the
//! socket back and ends it. What the handler had sent before is on its way by then: the library flushes
//! when a handler waits.

use std::io;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a reset.
    Reset,
    /// In good order for TCP, between two chunks of the body or in the middle of one of known length.
    Close,
    /// In good order for TCP, in the middle of a chunk.
    CloseInChunk,
}

/// What the requests of a connection can do to it.
#[derive(Default)]
pub(super) struct Line {
    end: Mutex<Option<End>>,
    wanted: Notify,
}

impl Line {
    /// Asks for the connection's end; the first to ask says how.
    pub(super) fn end(&self, how: End) {
        self.end.lock().get_or_insert(how);
        self.wanted.notify_one();
    }

    /// Returns when an end was asked for.
    pub(super) async fn ended(&self) -> End {
        loop {
            if let Some(end) = *self.end.lock() {
                return end;
            }
            self.wanted.notified().await;
        }
    }
}

impl End {
    /// Ends the connection that this is the socket of.
    pub(super) async fn apply(self, mut stream: TcpStream) -> io::Result<()> {
        match self {
            Self::Reset => stream.set_zero_linger(),
            Self::Close => stream.shutdown().await,
            Self::CloseInChunk => {
                // The head of a chunk of 1,024 bytes, and less than that.
                stream.write_all(b"400\r\ndata: {").await?;
                stream.shutdown().await
            }
        }
    }
}
