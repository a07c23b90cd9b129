//! Numbers as people read them.

/// `49 %` for 0.49; one decimal below ten.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value == 0.0 || value >= 9.95 { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

/// The difference of two ratios: `7 points`.
pub fn points(difference: f64) -> String {
    let value = difference * 100.0;
    if value.abs() >= 9.95 { format!("{value:.0} points") } else { format!("{value:.1} points") }
}

/// `12,031`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `144.8 M`: three digits are enough for a large amount.
pub fn amount(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        x if x >= 1e9 => (value / 1e9, " G"),
        x if x >= 1e6 => (value / 1e6, " M"),
        x if x >= 1e4 => (value / 1e3, " k"),
        _ => return count(value.max(0.0).round() as u64),
    };
    let text = if scaled >= 99.95 { format!("{scaled:.0}") } else { format!("{scaled:.1}") };
    format!("{}{unit}", text.trim_end_matches(".0"))
}

/// `340 ms`, `1.2 s`, `746 s`.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 99_500.0 => format!("{:.1} s", ms / 1e3),
        ms => format!("{} s", count((ms / 1e3).round() as u64)),
    }
}

/// `3.4`, `0.05`; what is less than that is only said to be.
pub fn rate(value: f64) -> String {
    match value {
        value if value < 0.01 => "less than 0.01".to_owned(),
        value if value < 1.0 => format!("{value:.2}"),
        value => format!("{value:.1}"),
    }
}

/// `40 s`, `3 minutes`, `1.5 hours`.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// `one`, `two`, ... as far as words are shorter to read than figures.
pub fn small(value: usize) -> String {
    const WORDS: [&str; 10] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    WORDS.get(value).map_or_else(|| count(value as u64), |&word| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_say_something() {
        let cases: [(String, &str); 12] = [
            (percent(0.486), "49 %"),
            (percent(0.0994), "9.9 %"),
            (percent(0.0), "0 %"),
            (points(0.072), "7.2 points"),
            (count(12_031), "12,031"),
            (amount(144_793_823.0), "145 M"),
            (amount(9_450_000.0), "9.4 M"),
            (amount(512.0), "512"),
            (amount(20_000.0), "20 k"),
            (milliseconds(1234.0), "1.2 s"),
            (seconds(177.0), "3 minutes"),
            (small(3), "three"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
