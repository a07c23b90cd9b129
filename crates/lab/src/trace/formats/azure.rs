//! Azure's traces of LLM services: `TIMESTAMP,ContextTokens,GeneratedTokens`, dates with seven digits after the second.

use crate::trace::csv::{Columns, split};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::Record;
use crate::trace::time::{TimeUnit, Times, Written};

const TIME: &str = "timestamp";
const INPUT: &str = "contexttokens";
const OUTPUT: &str = "generatedtokens";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    Columns::are_named(look, [TIME, INPUT, OUTPUT])
}

/// Reads such rows.
pub(super) struct Azure {
    columns: Columns,
    times: Times,
}

impl Azure {
    pub(super) fn new(given: &Given) -> Self {
        Self { columns: Columns::default(), times: Times::new(given.time_unit, TimeUnit::Seconds) }
    }
}

impl ReadRow for Azure {
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
        let tokens = |name: &str| self.columns.get(&values, name).and_then(|text| text.parse().ok());
        let time = self.columns.get(&values, TIME).and_then(Written::parse).ok_or("no time in TIMESTAMP")?;
        out.push(Record {
            at_ms: self.times.ms(time),
            input_tokens: Some(tokens(INPUT).ok_or("no number in ContextTokens")?),
            output_tokens: Some(tokens(OUTPUT).ok_or("no number in GeneratedTokens")?),
            ..Record::default()
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().collect()
    }
}
