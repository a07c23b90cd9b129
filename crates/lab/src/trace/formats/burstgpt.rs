//! BurstGPT: `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, and in newer files
//! `Session ID` and `Elapsed time`. Times are seconds. A response of 0 tokens is one that failed.

use crate::trace::csv::{Columns, split};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};

const TIME: &str = "timestamp";
const INPUT: &str = "request tokens";
const OUTPUT: &str = "response tokens";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    Columns::are_named(look, [TIME, INPUT, OUTPUT])
}

/// Reads such rows.
pub(super) struct BurstGpt {
    columns: Columns,
    times: Times,
    failed: u64,
}

impl BurstGpt {
    pub(super) fn new(given: &Given) -> Self {
        Self { columns: Columns::default(), times: Times::new(given.time_unit, TimeUnit::Seconds), failed: 0 }
    }
}

impl ReadRow for BurstGpt {
    fn begin_file(&mut self) {
        self.columns = Columns::default();
    }

    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let line = std::str::from_utf8(row).map_err(|_| "not text")?;
        if self.columns.is_empty() {
            self.columns = Columns::of(line);
            return Ok(());
        }
        let values = split(line);
        let get = |name: &str| self.columns.get(&values, name);
        let number = |name: &str| get(name).and_then(|text| text.parse::<f64>().ok());
        let tokens = |name: &str| number(name).filter(|&count| (0.0..=1e9).contains(&count)).map(|count| count as u32);
        let time = get(TIME).and_then(Written::parse).ok_or("no time in Timestamp")?;
        let output = tokens(OUTPUT).ok_or("no number in Response tokens")?;
        let input = tokens(INPUT).ok_or("no number in Request tokens")?;
        self.failed += u64::from(output == 0);
        let session = get("session id").map(Into::into);
        let model = get("model").map(Into::into);
        let e2e_ms = number("elapsed time").filter(|s| s.is_finite() && *s >= 0.0).map(|s| s * 1e3);
        out.push(Record {
            at_ms: self.times.ms(time),
            session,
            model,
            input_tokens: Some(input),
            output_tokens: Some(output),
            observed: Observed { e2e_ms, ..Observed::default() },
            ..Record::default()
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        let failed = self.failed;
        if failed == 0 {
            return Vec::new();
        }
        vec![format!("{failed} requests have an answer of 0 tokens, which in this trace means that they failed")]
    }
}
