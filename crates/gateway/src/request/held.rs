//! What the bodies of all requests take together: each is in memory until it is answered.

use prometheus_client::metrics::gauge::Gauge;

/// One body's part of it, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    all: Gauge,
    bytes: i64,
}

impl Held {
    /// Nothing yet, of what `all` counts.
    pub(super) fn none_of(all: &Gauge) -> Self {
        Self { all: all.clone(), bytes: 0 }
    }

    /// Takes room for more, if all together then have no more than `bytes_max`.
    pub(super) fn take(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let has_room = self.all.inc_by(bytes).saturating_add(bytes) <= i64::try_from(bytes_max).unwrap_or(i64::MAX);
        if has_room {
            self.bytes += bytes;
        } else {
            self.all.dec_by(bytes);
        }
        has_room
    }

    /// Gives back a part of the room taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).min(self.bytes);
        self.all.dec_by(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.dec_by(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_up_to_the_limit_and_given_back() {
        let all = Gauge::default();
        let (mut one, mut other) = (Held::none_of(&all), Held::none_of(&all));
        assert!(one.take(60, 100) && other.take(40, 100));
        assert!(!other.take(1, 100) && !one.take(usize::MAX, 100));
        assert_eq!(all.get(), 100);
        one.give_back(20);
        assert_eq!((all.get(), one.bytes), (80, 40));
        drop(one);
        assert!(other.take(60, 100));
        drop(other);
        assert_eq!(all.get(), 0);
    }
}
