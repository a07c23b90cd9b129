//! On what and when a figure was measured: a number without its machine says little.

use std::fmt;
use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 86_400;

/// This machine today.
#[derive(Debug)]
pub(crate) struct Machine {
    /// `YYYY-MM-DD`, UTC.
    pub(crate) date: String,
    /// The processor as it names itself.
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Main memory, where the system tells.
    pub(crate) memory_bytes: Option<u64>,
    /// The distribution and its kernel.
    pub(crate) os: String,
}

impl Machine {
    /// Asks the system. What it does not tell is said to be unknown: measuring goes on without.
    pub(crate) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let cpu = after(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown processor").to_owned();
        let memory_bytes = after(&read("/proc/meminfo"), "MemTotal").and_then(bytes_of_kib);
        Self {
            date: date(now.as_secs() / SECONDS_A_DAY),
            cpu: format!("{cpu} ({})", std::env::consts::ARCH),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes,
            os: os(&read("/etc/os-release"), read("/proc/sys/kernel/osrelease").trim()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, os, .. } = self;
        write!(f, "{cpu}, {cores} cores, ")?;
        if let Some(bytes) = self.memory_bytes {
            write!(f, "{:.0} GiB memory, ", bytes as f64 / f64::from(1 << 30))?;
        }
        write!(f, "{os}")
    }
}

/// The value of the first `name : value` line.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name).map(|(_, v)| v.trim())
}

fn bytes_of_kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

fn os(release: &str, kernel: &str) -> String {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
    match (name, kernel) {
        (None, _) => std::env::consts::OS.to_owned(),
        (Some(name), "") => name.to_owned(),
        // What follows the version is the builder's own.
        (Some(name), kernel) => format!("{name}, Linux {}", kernel.split('-').next().unwrap_or_default()),
    }
}

/// The day that many days after 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is a year's last, and in eras of 400 years, which are all alike.
fn date(days: u64) -> String {
    const DAYS_AN_ERA: u64 = 146_097;
    let since_march_of_year_0 = days + 719_468;
    let (era, day) = (since_march_of_year_0 / DAYS_AN_ERA, since_march_of_year_0 % DAYS_AN_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let cases = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_513, "2026-03-01"),
            (20_818, "2026-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ];
        for (days, expected) in cases {
            assert_eq!(date(days), expected, "{days}");
        }
    }

    #[test]
    fn every_day_of_a_century_comes_after_the_one_before() {
        let days: Vec<String> = (0..36_525).map(date).collect();
        assert!(days.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(days.last().map(String::as_str), Some("2069-12-31"));
    }

    #[test]
    fn the_systems_own_files_are_understood() {
        assert_eq!(after("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n", "model name"), Some("Some CPU @ 3 GHz"));
        assert_eq!(after("MemTotal:       24000000 kB\n", "MemTotal").and_then(bytes_of_kib), Some(24_576_000_000));
        assert_eq!(bytes_of_kib("many"), None);
        assert_eq!(os("NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n", "6.1.0-9-amd64"), "Some Linux 12, Linux 6.1.0");
        assert_eq!(os("", "6.1.0"), std::env::consts::OS);
    }
}
