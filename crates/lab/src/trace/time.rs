//! Times as traces write them.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// The unit of a time that is written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// `s`
    Seconds,
    /// `ms`
    Milliseconds,
    /// `us`
    Microseconds,
    /// `ns`
    Nanoseconds,
}

impl TimeUnit {
    /// All of them, the longest first.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds];

    /// As it is written in options.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    /// As it is written in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// The unit of times since 1970, told by how large they are: good from 1973 to 5138.
    pub fn of_epoch(value: f64) -> Option<Self> {
        match value {
            1e8..1e11 => Some(Self::Seconds),
            1e11..1e14 => Some(Self::Milliseconds),
            1e14..1e17 => Some(Self::Microseconds),
            1e17..1e20 => Some(Self::Nanoseconds),
            _ => None,
        }
    }

    /// A time in it, in milliseconds.
    pub fn in_ms(self, value: f64) -> f64 {
        match self {
            Self::Seconds => value * 1e3,
            Self::Milliseconds => value,
            Self::Microseconds => value / 1e3,
            Self::Nanoseconds => value / 1e6,
        }
    }
}

/// A time as it is written: a number in some unit, or a date.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Written {
    /// In the unit of the trace.
    Number(f64),
    /// Milliseconds since 1970.
    Date(f64),
}

impl Written {
    /// A number or a date, as text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse::<f64>() {
            Ok(number) => number.is_finite().then_some(Self::Number(number)),
            Err(_) => parse_date(text).map(Self::Date),
        }
    }

    /// In milliseconds, where numbers are in `unit`.
    pub(super) fn in_ms(self, unit: TimeUnit) -> f64 {
        match self {
            Self::Number(value) => unit.in_ms(value),
            Self::Date(ms) => ms,
        }
    }
}

/// The times of a trace: in which unit numbers are.
#[derive(Debug)]
pub(super) struct Times {
    given: Option<TimeUnit>,
    own: TimeUnit,
    /// The unit, once there was a number.
    unit: Option<(TimeUnit, &'static str)>,
}

impl Times {
    /// Numbers are in the `given` unit; else in the one that their size tells, if they count from 1970; else in `own`.
    pub(super) fn new(given: Option<TimeUnit>, own: TimeUnit) -> Self {
        Self { given, own, unit: None }
    }

    /// In milliseconds; `None` where it is no number.
    pub(super) fn ms(&mut self, written: Written) -> Option<f64> {
        let unit = match (written, self.unit) {
            (Written::Date(_), _) => self.own,
            (Written::Number(_), Some((unit, _))) => unit,
            (Written::Number(value), None) => {
                let decided = match (self.given, TimeUnit::of_epoch(value).filter(|_| value >= EPOCH_S_MIN)) {
                    (Some(unit), _) => (unit, "as told"),
                    (None, Some(unit)) => (unit, "since 1970"),
                    (None, None) => (self.own, "as usual in this format"),
                };
                self.unit = Some(decided);
                decided.0
            }
        };
        Some(written.in_ms(unit)).filter(|ms| ms.is_finite())
    }

    /// A span of time in milliseconds, in the same unit as times.
    pub(super) fn span_ms(&mut self, written: Written) -> Option<f64> {
        let unit = self.unit.map_or(self.given.unwrap_or(self.own), |(unit, _)| unit);
        Some(written.in_ms(unit)).filter(|ms| ms.is_finite())
    }

    /// What was assumed, if there was a number.
    pub(super) fn assumption(&self) -> Option<String> {
        self.unit.map(|(unit, by)| format!("times are {}, {by} (--time-unit)", unit.name()))
    }
}

/// A time before 2001 is taken to count from the beginning of the trace.
const EPOCH_S_MIN: f64 = 1e9;

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Written;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Written, E> {
                Ok(Written::Number(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Written, E> {
                Ok(Written::Number(value as f64))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Written, E> {
                Ok(Written::Number(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
                Written::parse(text).ok_or_else(|| E::custom("not a time"))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// A date of ISO 8601 in milliseconds since 1970: `T`, `t` or a space before the time of day, any number of digits after
/// the second, `Z`, an offset, or no zone, which is read as UTC.
pub(super) fn parse_date(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.splitn(3, ['-', '/']);
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let time = rest.strip_prefix(['T', 't', ' '])?.trim_start();
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    let clock = clock.trim_end();
    let (hour, minute) = (digits(clock.get(..2)?, 2)?, digits(clock.get(3..5)?, 2)?);
    let seconds = clock.get(6..)?;
    let (second, fraction) = match seconds.find(['.', ',']) {
        Some(at) => (&seconds[..at], &seconds[at + 1..]),
        None => (seconds, ""),
    };
    let second = digits(second, 2)?;
    let separated = clock.as_bytes()[2] == b':' && clock.as_bytes()[5] == b':';
    if !separated || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let s = (days_since_1970(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - offset_s(zone)?;
    Some(s as f64 * 1e3 + fraction_ms(fraction)?)
}

/// The milliseconds that the digits after the point are.
fn fraction_ms(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    // Nanoseconds are as far as anything here can tell.
    let kept = &text.as_bytes()[..text.len().min(9)];
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = kept.iter().fold(0_u64, |value, byte| value * 10 + u64::from(byte - b'0'));
    let ns = value * 10_u64.pow(9 - kept.len() as u32);
    Some(ns as f64 / 1e6)
}

fn offset_s(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first() {
        None => return Some(0),
        Some(b'Z' | b'z') => return (zone.len() == 1).then_some(0),
        Some(b'-') => -1,
        Some(_) => 1,
    };
    let digits_only: String = zone[1..].chars().filter(|&c| c != ':').collect();
    let (hours, minutes) = match digits_only.len() {
        2 => (digits(&digits_only, 2)?, 0),
        4 => (digits(digits_only.get(..2)?, 2)?, digits(digits_only.get(2..)?, 2)?),
        _ => return None,
    };
    Some(sign * (hours * 3600 + minutes * 60))
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Days from 1970-01-01 in the Gregorian calendar, by Howard Hinnant's `days_from_civil`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_every_spelling_that_traces_use() {
        let ms = 1_785_578_400_000.0;
        for (text, expected) in [
            ("2026-08-01T10:00:00Z", Some(ms)),
            ("2026-08-01T10:00:00", Some(ms)),
            ("2026-08-01 10:00:00", Some(ms)),
            ("2026/08/01 10:00:00", Some(ms)),
            ("2026-08-01T10:00:00.5", Some(ms + 500.0)),
            ("2026-08-01 10:00:00,250", Some(ms + 250.0)),
            ("2026-08-01 10:00:00.1234567", Some(ms + 123.4567)),
            ("2026-08-01T10:00:00.123456789123Z", Some(ms + 123.456_789)),
            ("2026-08-01T12:00:00+02:00", Some(ms)),
            ("2026-08-01T12:00:00+0200", Some(ms)),
            ("2026-08-01T03:30:00-06:30", Some(ms)),
            ("2026-08-01 10:00:00 +00:00", Some(ms)),
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000.0)),
            ("2026-13-01T10:00:00Z", None),
            ("2026-08-01", None),
            ("2026-08-01T10:00:00.1x", None),
            ("2026-08-01T10:00:00é", None),
            ("2026-08-01T1000:00", None),
            ("", None),
            ("ééééé", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }

    #[test]
    fn the_unit_of_times_since_1970_is_told_by_their_size() {
        for (value, unit) in [
            (1_785_578_400.0, Some(TimeUnit::Seconds)),
            (1_785_578_400_123.0, Some(TimeUnit::Milliseconds)),
            (1_785_578_400_123_456.0, Some(TimeUnit::Microseconds)),
            (1.785e18, Some(TimeUnit::Nanoseconds)),
            (27_482.0, None),
            (-1.0, None),
        ] {
            assert_eq!(TimeUnit::of_epoch(value), unit, "{value}");
        }
    }
}
