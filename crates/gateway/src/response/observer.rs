//! Looks at an answer while it passes: first content, gaps between content, usage. It never holds the answer up.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use kvroute_wire::response::{StreamObserver, Usage, UsageTap};

/// Largest event of a stream that is looked at.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// What fits the answer's content type.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives in a relay, which is boxed")]
pub(crate) enum Observer {
    /// Server-sent events.
    Stream(StreamObserver),
    /// One JSON document.
    Document(UsageTap),
    /// Anything else passes unseen.
    Nothing,
}

/// What a piece of the answer brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Events that carry generated content.
    pub(crate) content_events: u32,
    /// An error that the engine reports inside its stream.
    pub(crate) error: bool,
}

impl Observer {
    /// An observer for an answer with these headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let is_encoded = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
        let media_type = headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
        let media_type = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if is_encoded {
            Self::Nothing
        } else if media_type.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Stream(StreamObserver::new(EVENT_BYTES_MAX))
        } else if media_type.eq_ignore_ascii_case(b"application/json") {
            Self::Document(UsageTap::new())
        } else {
            Self::Nothing
        }
    }

    /// Whether the answer is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Looks at the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Seen {
        let mut seen = Seen::default();
        match self {
            Self::Stream(observer) => observer.feed(piece, |event| {
                seen.content_events += u32::from(event.content);
                seen.error |= event.error;
            }),
            Self::Document(tap) => tap.feed(piece),
            Self::Nothing => {}
        }
        seen
    }

    /// Whether the answer is a stream that has not had its end mark.
    pub(crate) fn misses_end_mark(&self) -> bool {
        match self {
            Self::Stream(observer) => !observer.is_done() && !observer.is_overlong(),
            Self::Document(_) | Self::Nothing => false,
        }
    }

    /// Whether the answer is a stream that has had its end mark.
    pub(crate) fn has_end_mark(&self) -> bool {
        matches!(self, Self::Stream(observer) if observer.is_done())
    }

    /// The id of the answer, where it has one.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Stream(observer) => observer.response_id(),
            Self::Document(tap) => tap.id(),
            Self::Nothing => None,
        }
    }

    /// The usage reported so far.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Self::Stream(observer) => observer.usage(),
            Self::Document(tap) => tap.usage(),
            Self::Nothing => None,
        }
    }
}
