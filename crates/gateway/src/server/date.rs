//! The date that answers carry, made once a second.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// See the module.
#[derive(Debug)]
pub(super) struct Date {
    second: u64,
    text: [u8; 29],
}

impl Date {
    /// One that was never asked for.
    pub(super) fn new() -> Self {
        Self { second: u64::MAX, text: [b' '; 29] }
    }

    /// The date at `now`.
    pub(super) fn at(&mut self, now: SystemTime) -> [u8; 29] {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second {
            self.second = second;
            let _ = write!(&mut self.text[..], "{}", HttpDate::from(now));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_follows_the_clock() {
        let mut date = Date::new();
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        assert_eq!(date.at(at(784_111_777_000)), *b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(at(784_111_777_999)), *b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(at(784_111_778_000)), *b"Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
