//! How many tests passed, failed and were skipped, read from what the runners print.
//!
//! libtest ends every binary with `test result: ok. 5 passed; 0 failed; 1 ignored; ...`, one line a binary and one for
//! each crate's documentation tests. pytest ends with `5 passed, 1 skipped in 0.12s`, between equals signs unless it
//! was asked to be quiet. Both have machine-readable forms, but libtest's is unstable and pytest's is XML.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Did what they say.
    pub(crate) passed: u64,
    /// Did not, or could not be run.
    pub(crate) failed: u64,
    /// Were not asked.
    pub(crate) skipped: u64,
}

impl Tally {
    /// One test that passed.
    pub(crate) const ONE_PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };

    /// The sum of all `test result:` lines of a `cargo test`.
    pub(crate) fn of_cargo_test(output: &str) -> Self {
        let mut sum = Self::default();
        for line in output.lines() {
            let Some(result) = line.trim().strip_prefix("test result: ") else { continue };
            // The verdict ends with a full stop, the counts are separated by semicolons.
            let Some((_, counts)) = result.split_once(". ") else { continue };
            for (number, what) in counts.split(';').filter_map(count) {
                match what {
                    "passed" => sum.passed += number,
                    "failed" => sum.failed += number,
                    "ignored" => sum.skipped += number,
                    _ => {} // measured (benchmarks), filtered out
                }
            }
        }
        sum
    }

    /// The summary line of a pytest run; `None` where there is none, which a run that was killed does not print.
    pub(crate) fn of_pytest(output: &str) -> Option<Self> {
        output.lines().rev().find_map(pytest_summary)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

fn pytest_summary(line: &str) -> Option<Tally> {
    let (counts, _time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let mut tally = Tally::default();
    let mut is_known = false;
    for part in counts.split(", ") {
        let (number, what) = count(part)?;
        let counter = match what {
            // A test that was expected to fail and passed is no failure unless pytest is strict, and then it says so.
            "passed" | "xpassed" => &mut tally.passed,
            // An error is a test whose fixture failed.
            "failed" | "error" | "errors" => &mut tally.failed,
            "skipped" | "xfailed" => &mut tally.skipped,
            _ => continue, // warnings, deselected, parts of a test
        };
        *counter = counter.saturating_add(number);
        is_known = true;
    }
    is_known.then_some(tally)
}

/// `5 passed` as its number and its word.
fn count(text: &str) -> Option<(u64, &str)> {
    let (number, what) = text.trim().split_once(' ')?;
    // Runs are counted in thousands: what does not fit is not a count.
    Some((u64::from(number.parse::<u32>().ok()?), what))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn every_binary_and_every_crates_documentation_tests_count() {
        let output = "\
     Running unittests src/lib.rs (target/debug/deps/kvroute_core-1)

running 3 tests
..i
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
F.
failures:
    the_gateway_answers

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s

   Doc-tests kvroute_wire

running 4 tests
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
";
        assert_eq!(Tally::of_cargo_test(output), tally(7, 1, 1));
    }

    #[test]
    fn a_build_that_failed_has_no_tests() {
        assert_eq!(Tally::of_cargo_test("error[E0308]: mismatched types\n"), Tally::default());
    }

    #[test]
    fn pytests_summary_is_read_in_every_form_it_takes() {
        let cases = [
            ("37 passed in 55.21s", Some(tally(37, 0, 0))),
            ("==== 2 failed, 35 passed, 1 skipped, 3 warnings in 61.00s (0:01:01) ====", Some(tally(35, 2, 1))),
            ("1 failed, 2 errors in 0.50s", Some(tally(0, 3, 0))),
            ("1 error in 0.50s", Some(tally(0, 1, 0))),
            ("3 passed, 2 deselected, 1 xfailed, 1 xpassed in 1.00s", Some(tally(4, 0, 1))),
            ("3 passed, 6 subtests passed in 1.00s", Some(tally(3, 0, 0))),
            ("no tests ran in 0.01s", None),
            ("KeyboardInterrupt", None),
            ("found 3 errors in test_cli.py", None),
        ];
        for (line, expected) in cases {
            assert_eq!(Tally::of_pytest(&format!("....\n{line}\n")), expected, "{line}");
        }
    }

    #[test]
    fn the_last_summary_is_the_runs_own() {
        let output = "a test printed: \n9 failed in 1.00s\n...\n2 passed in 3.00s\n";
        assert_eq!(Tally::of_pytest(output), Some(tally(2, 0, 0)));
    }

    #[test]
    fn the_closing_line_names_skipped_tests_only_where_there_are_some() {
        assert_eq!(tally(10, 0, 0).to_string(), "10 passed, 0 failed");
        assert_eq!(tally(10, 2, 1).to_string(), "10 passed, 2 failed, 1 skipped");
    }

    proptest! {
        #[test]
        fn counts_are_read_back_from_what_the_runners_print(
            binaries in prop::collection::vec((0u32..5_000, 0u32..50, 0u32..50), 0..20),
            noise in "[ -~\n]{0,200}",
        ) {
            let mut printed = String::new();
            let mut expected = Tally::default();
            for (passed, failed, ignored) in &binaries {
                let verdict = if *failed > 0 { "FAILED" } else { "ok" };
                printed += &format!("{noise}\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; \
                                     0 measured; 7 filtered out; finished in 0.00s\n");
                expected += tally(u64::from(*passed), u64::from(*failed), u64::from(*ignored));
            }
            prop_assert_eq!(Tally::of_cargo_test(&printed), expected);
            let Tally { passed, failed, skipped } = expected;
            let summary = format!("{noise}\n{failed} failed, {passed} passed, {skipped} skipped in 0.10s\n");
            prop_assert_eq!(Tally::of_pytest(&summary), Some(expected));
        }

        #[test]
        fn text_that_is_no_summary_counts_nothing_however_strange_it_is(text in any::<String>(), number in any::<u64>()) {
            prop_assume!(!text.contains(" in ") && !text.contains("test result: "));
            for noise in [text.clone(), format!("{number} passed, {text}"), format!("test result: {number} passed; {text}")] {
                prop_assert_eq!(Tally::of_cargo_test(&noise), Tally::default());
                prop_assert_eq!(Tally::of_pytest(&noise), None);
            }
        }
    }
}
