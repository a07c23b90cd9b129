//! What a figure is: its name, what is promised, and what was measured.

use std::fmt;

use anyhow::Result;

use crate::workspace::Workspace;

/// A promise about a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// The value or more.
    AtLeast(f64),
    /// The value or less.
    AtMost(f64),
    /// From the first to the second, both included.
    Within(f64, f64),
}

/// What a number stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Footing {
    /// Real HTTP and the real gateway before engines whose latencies are modelled.
    Simulated,
    /// An inference engine that computes.
    RealEngine,
    /// The product's own code, nothing modelled, the same result on every machine.
    Exact,
    /// Clocks and sizes: the real gateway and real HTTP, nothing modelled. Other machines give other numbers.
    Machine,
}

/// A named number.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Lower-case words joined by underscores.
    pub(crate) name: &'static str,
    /// The name of the figures it belongs with.
    pub(crate) group: &'static str,
    /// What it counts.
    pub(crate) unit: &'static str,
    /// What is promised; `None` for a number that only informs.
    pub(crate) bar: Option<Bar>,
    /// What it stands on.
    pub(crate) footing: Footing,
    /// How it is measured, in a sentence without a full stop.
    pub(crate) how: &'static str,
}

/// A value that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The figure's name.
    pub(crate) name: &'static str,
    /// In the figure's unit.
    pub(crate) value: f64,
    /// The numbers behind it; may be empty.
    pub(crate) detail: String,
}

/// Figures that one measurement gives together.
#[derive(Debug)]
pub(crate) struct Source {
    /// What it gives.
    pub(crate) figures: &'static [Figure],
    /// Measures all of them.
    pub(crate) measure: fn(&Workspace) -> Result<Vec<Reading>>,
}

/// A figure after its measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The figure.
    pub(crate) figure: &'static Figure,
    /// Its value, or why there is none.
    pub(crate) reading: Result<Reading, String>,
}

impl Bar {
    /// Whether the value keeps the promise.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl Footing {
    /// The word beside the number.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::RealEngine => "real engine",
            Self::Exact => "exact",
            Self::Machine => "this machine",
        }
    }
}

impl Reading {
    /// A value and the numbers behind it.
    pub(crate) fn new(name: &'static str, value: f64, detail: String) -> Self {
        Self { name, value, detail }
    }
}

impl Measured {
    /// Whether the promise is kept; `None` where there is a value and nothing was promised.
    pub(crate) fn holds(&self) -> Option<bool> {
        match &self.reading {
            Ok(reading) => self.figure.bar.map(|bar| bar.holds(reading.value)),
            Err(_) => Some(false),
        }
    }

    /// The value as people read it.
    pub(crate) fn value(&self) -> String {
        self.reading.as_ref().map_or_else(|_| "-".to_owned(), |reading| number(reading.value))
    }

    /// The promise as people read it.
    pub(crate) fn bar(&self) -> String {
        self.figure.bar.map(|bar| bar.to_string()).unwrap_or_default()
    }

    /// `yes`, `no`, or nothing where nothing was promised.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        }
    }

    /// The numbers behind the value, or why there is none.
    pub(crate) fn detail(&self) -> &str {
        match &self.reading {
            Ok(reading) => &reading.detail,
            Err(why) => why,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {}", number(*least)),
            Self::AtMost(most) => write!(f, "<= {}", number(*most)),
            Self::Within(least, most) => write!(f, "{}..{}", number(*least), number(*most)),
        }
    }
}

/// At most two decimals, and none that say nothing.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A count with its thousands separated.
pub(crate) fn count(value: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    static PROMISED: Figure = Figure {
        name: "cache_hit",
        group: "slice",
        unit: "%",
        bar: Some(Bar::AtLeast(70.0)),
        footing: Footing::Simulated,
        how: "",
    };
    static INFORMS: Figure =
        Figure { name: "share", group: "slice", unit: "%", bar: None, footing: Footing::Exact, how: "" };

    fn measured(figure: &'static Figure, value: f64) -> Measured {
        Measured { figure, reading: Ok(Reading::new(figure.name, value, String::new())) }
    }

    #[test]
    fn a_bar_includes_its_own_value_and_nothing_is_rounded_over_it() {
        let cases = [
            (Bar::AtLeast(70.0), 70.0, true),
            (Bar::AtLeast(70.0), 69.9999, false),
            (Bar::AtMost(-60.0), -60.0, true),
            (Bar::AtMost(-60.0), -59.9999, false),
            (Bar::AtMost(0.0), 1.0, false),
            (Bar::Within(-77.0, -71.0), -77.0, true),
            (Bar::Within(-77.0, -71.0), -70.99, false),
            (Bar::Within(-77.0, -71.0), -77.01, false),
            (Bar::Within(0.0, 1.0), f64::NAN, false),
            (Bar::AtLeast(70.0), f64::NAN, false),
            (Bar::AtMost(70.0), f64::NAN, false),
        ];
        for (bar, value, holds) in cases {
            assert_eq!(bar.holds(value), holds, "{value} {bar}");
        }
    }

    #[test]
    fn only_a_promise_can_fail_and_a_figure_without_a_value_does_not_hold() {
        assert_eq!(measured(&PROMISED, 82.0).holds(), Some(true));
        assert_eq!(measured(&PROMISED, 12.0).verdict(), "no");
        assert_eq!(measured(&INFORMS, 12.0).holds(), None);
        for figure in [&PROMISED, &INFORMS] {
            let unmeasured = Measured { figure, reading: Err("no engine".to_owned()) };
            assert_eq!((unmeasured.holds(), unmeasured.value().as_str()), (Some(false), "-"));
        }
    }

    #[test]
    fn numbers_have_no_decimals_that_say_nothing() {
        let cases = [(100.0, "100"), (0.0, "0"), (-0.001, "0"), (16.2857, "16.29"), (-71.4, "-71.4"), (1200.0, "1200")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn thousands_are_separated() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (49_933, "49,933"), (1_234_567, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
    }
}
