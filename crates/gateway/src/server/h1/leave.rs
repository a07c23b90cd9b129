//! What a client still sends of a request that was answered without it, and how a connection is closed on a client that
//! may still be sending.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;

use super::io::Io;
use crate::request::body::{DISCARD_BYTES_MAX, DISCARD_TIME};
use crate::server::open::Connection;

/// Takes what is left of the request's body and drops it. Says whether its end came within the limits.
pub(super) async fn discard(io: &Arc<Mutex<Io>>, open: &Connection) -> bool {
    if io.lock().is_body_taken() {
        return true;
    }
    let mut bytes_left = DISCARD_BYTES_MAX;
    let taken = poll_fn(|cx| {
        let mut io = io.lock();
        while !io.is_body_taken() {
            match io.poll_piece(DISCARD_TIME, cx) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(Ok(piece))) if piece.len() as u64 <= bytes_left => bytes_left -= piece.len() as u64,
                Poll::Ready(Some(_)) => return Poll::Ready(false),
                Poll::Pending if open.is_to_end() => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(true)
    });
    tokio::time::timeout(DISCARD_TIME, taken).await.unwrap_or(false)
}

/// Closes the connection: nothing more is said, and what still comes is dropped until the client has closed too, or the
/// limits are reached. To close at once would reset it, and most clients then report the reset in place of the answer.
pub(super) async fn close(io: &Arc<Mutex<Io>>, open: &Connection) {
    if poll_fn(|cx| io.lock().poll_close(cx)).await.is_err() {
        return;
    }
    if io.lock().is_body_taken() && !io.lock().has_more() {
        return;
    }
    let mut bytes_left = DISCARD_BYTES_MAX;
    let dropped = poll_fn(|cx| {
        let mut io = io.lock();
        loop {
            match io.poll_drop(cx) {
                Poll::Ready(0) => return Poll::Ready(()),
                Poll::Ready(bytes) => match bytes_left.checked_sub(bytes as u64) {
                    Some(left) => bytes_left = left,
                    None => return Poll::Ready(()),
                },
                Poll::Pending if open.is_to_end() => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    let _ = tokio::time::timeout(DISCARD_TIME, dropped).await;
}
