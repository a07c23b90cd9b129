//! What libFuzzer says at its end.

use std::fmt;

use crate::figures::count;

/// How a run of a target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Seconds that it ran.
    pub(crate) seconds: u64,
    /// Inputs that were tried.
    pub(crate) executions: u64,
    /// Whether it ended with something to mend.
    pub(crate) is_finding: bool,
    /// The input that does it, where one was kept.
    pub(crate) input: Option<String>,
}

impl Outcome {
    /// Reads what a target printed in its time. `None` where it did not run to an end of its own.
    pub(crate) fn of(output: &str, is_success: bool, seconds: u64) -> Option<Self> {
        let after = |words: &str| output.lines().rev().find_map(|line| Some(line.split_once(words)?.1.trim()));
        let executions = after("stat::number_of_executed_units:")?.parse().ok()?;
        let input = after("Test unit written to ").map(str::to_owned);
        Some(Self { seconds, executions, is_finding: !is_success, input })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = if self.is_finding { "a finding" } else { "no finding" };
        write!(f, "{} executions in {} s, {found}", count(self.executions), self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_without_a_finding_is_read() {
        let output = "#8\tpulse  corp: 3/9b\nDone 1048576 runs in 6 second(s)\n\
                      stat::number_of_executed_units: 1048576\nstat::average_exec_per_sec:     174762\n";
        let outcome = Outcome::of(output, true, 6).unwrap();
        assert_eq!(outcome.to_string(), "1,048,576 executions in 6 s, no finding");
        assert_eq!(outcome.input, None);
    }

    #[test]
    fn a_finding_is_one_and_names_its_input() {
        let output = "thread '<unnamed>' panicked at fuzz_targets/one.rs:7:5:\n\
                      SUMMARY: libFuzzer: deadly signal\nstat::number_of_executed_units: 77\n\
                      artifact_prefix='/w/fuzz/artifacts/one/'; Test unit written to /w/fuzz/artifacts/one/crash-1\n";
        let outcome = Outcome::of(output, false, 2).unwrap();
        assert_eq!(outcome.to_string(), "77 executions in 2 s, a finding");
        assert_eq!(outcome.input.as_deref(), Some("/w/fuzz/artifacts/one/crash-1"));
    }

    #[test]
    fn a_target_that_cannot_be_built_has_no_outcome() {
        assert_eq!(Outcome::of("error[E0308]: mismatched types\n", false, 1), None);
    }
}
