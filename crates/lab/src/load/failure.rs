//! Why a request failed, in kinds coarse enough to count.

use std::fmt;

/// Kind of a failure. The display form is a label such as `status_503`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection could be made.
    Connect,
    /// The connection broke before or within the answer.
    Broken,
    /// The answer took longer than the request timeout.
    Timeout,
    /// An HTTP status other than 2xx.
    Status(u16),
    /// A 2xx answer that is neither server-sent events nor an AWS event stream.
    NotAStream,
    /// The stream carried an error event or an exception frame.
    ErrorEvent,
    /// The stream ended cleanly but without `[DONE]`.
    Truncated,
    /// The stream could not be read: a bad frame, or data that is no JSON.
    Malformed,
    /// A line, frame or answer beyond the limits of the reader.
    TooLarge,
    /// A complete stream without any content.
    Empty,
    /// The task that held the request ended abnormally.
    Internal,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Broken => f.write_str("broken"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(code) => write!(f, "status_{code}"),
            Self::NotAStream => f.write_str("not_a_stream"),
            Self::ErrorEvent => f.write_str("error_event"),
            Self::Truncated => f.write_str("truncated"),
            Self::Malformed => f.write_str("malformed"),
            Self::TooLarge => f.write_str("too_large"),
            Self::Empty => f.write_str("empty"),
            Self::Internal => f.write_str("internal"),
        }
    }
}

/// A failure with what the other side said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// At most [`MESSAGE_CHARS_MAX`] characters on one line.
    pub(super) message: String,
}

/// Characters kept of a message.
const MESSAGE_CHARS_MAX: usize = 200;

impl Failure {
    pub(super) fn new(kind: FailureKind, message: &str) -> Self {
        let one_line = |c: char| if c.is_control() { ' ' } else { c };
        let message: String = message.chars().take(MESSAGE_CHARS_MAX).map(one_line).collect();
        Self { kind, message: message.trim().to_owned() }
    }

    pub(super) fn from_bytes(kind: FailureKind, message: &[u8]) -> Self {
        // Four bytes are the longest character, so the cut loses none that would be kept.
        let head = &message[..message.len().min(4 * MESSAGE_CHARS_MAX)];
        Self::new(kind, &String::from_utf8_lossy(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_short_line_whatever_was_sent() {
        let sent = [b"a\r\n\x1b[31mb".as_slice(), &[0xff; 9_000]].concat();
        let failure = Failure::from_bytes(FailureKind::Status(503), &sent);
        assert_eq!(failure.message.chars().count(), MESSAGE_CHARS_MAX);
        assert!(failure.message.starts_with("a   [31mb\u{fffd}"));
        assert_eq!(failure.kind.to_string(), "status_503");
    }
}
