//! Refusals in the log, each with the id of its request, so that what a client complains of can be found.
//!
//! Whoever sends nonsense as fast as it can must not fill the log: of each kind a few lines in some seconds are written,
//! and the next one says how many were left out. The metrics count all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use super::Refusal;
use super::call::Api;
use crate::clock::Clock;

/// Carries the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id of a client that is used.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Lines of one kind in one period.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// The client's own id, or a random one.
pub(super) fn request_id(headers: &HeaderMap, clock: &Clock) -> HeaderValue {
    let is_usable = |id: &&HeaderValue| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(&REQUEST_ID).filter(is_usable).cloned().unwrap_or_else(|| {
        let random = clock.moment().entropy.next_u64();
        HeaderValue::try_from(format!("{random:016x}")).expect("hexadecimal digits fit a header")
    })
}

/// What has been written of late.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<HashMap<&'static str, Written>>);

/// Of one kind, since `began`.
#[derive(Debug)]
struct Written {
    began: Instant,
    lines: u32,
    /// Left out since the last line.
    left_out: u64,
}

impl RefusalLog {
    /// Writes of a refusal, if there is room.
    pub(super) fn tell(&self, refusal: &Refusal, api: Api, id: &HeaderValue) {
        let kind = refusal.name();
        let Some(left_out) = self.admit(kind, Instant::now()) else { return };
        let (code, message) = (refusal.code(api), refusal.message());
        let request_id = id.to_str().unwrap_or_default();
        if code >= 500 {
            tracing::warn!(kind, code, request_id, left_out, message, "request refused");
        } else {
            tracing::info!(kind, code, request_id, left_out, message, "request refused");
        }
    }

    /// Whether a line may be written now, and how many have been left out before it.
    fn admit(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock();
        let written = kinds.entry(kind).or_insert(Written { began: now, lines: 0, left_out: 0 });
        if now.duration_since(written.began) >= PERIOD {
            (written.began, written.lines) = (now, 0);
        }
        if written.lines == LINES_MAX {
            written.left_out += 1;
            return None;
        }
        written.lines += 1;
        Some(std::mem::take(&mut written.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_leaves_a_few_lines_and_a_count() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let admitted = (0..1_000).filter(|_| log.admit("a", start).is_some()).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(log.admit("b", start), Some(0), "another kind has room of its own");
        let just_before = start + PERIOD - Duration::from_millis(1);
        assert_eq!(log.admit("a", just_before), None);
        assert_eq!(log.admit("a", start + PERIOD), Some(991));
        assert_eq!(log.admit("a", start + PERIOD), Some(0));
    }

    #[test]
    fn a_clients_own_id_is_used_if_it_is_one() {
        let clock = Clock::start();
        let id = |sent: Option<&str>| {
            let headers = sent.map(|sent| (REQUEST_ID, HeaderValue::try_from(sent).unwrap()));
            request_id(&headers.into_iter().collect(), &clock).to_str().unwrap().to_owned()
        };
        assert_eq!(id(Some("req_1")), "req_1");
        for unusable in [None, Some(""), Some("a b"), Some("\u{e4}"), Some(&*"x".repeat(129))] {
            let (first, second) = (id(unusable), id(unusable));
            assert!(first.len() == 16 && first != second, "{unusable:?}");
        }
    }
}
