//! Home-made logs in JSON: where things are was told with `--field`.

use std::borrow::Cow;
use std::sync::Arc;

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::blocks::{BlockName, Fit, choose_tokens, scoped};
use crate::trace::content::record_of;
use crate::trace::field::Field;
use crate::trace::format::{Given, ReadRow};
use crate::trace::path::Path;
use crate::trace::record::{Blocks, Content, Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Usage, text_or_json};

const BLOCK_TOKENS: u32 = 16;

/// Reads such rows.
pub(super) struct Fields {
    fields: Vec<(Field, Path)>,
    times: Times,
    block_tokens: u32,
    fit: Fit,
    keeps_body: bool,
    /// Rows in which each field was found.
    found: Vec<u64>,
}

/// A row, to be asked for fields.
struct Row<'a> {
    fields: &'a [(Field, Path)],
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    fn raw(&self, field: Field) -> Option<&'a RawValue> {
        self.fields.iter().filter(|(named, _)| *named == field).find_map(|(_, path)| path.find(self.bytes))
    }

    fn text(&self, field: Field) -> Option<Cow<'a, str>> {
        self.raw(field).map(text_or_json).filter(|text| !text.is_empty())
    }

    fn parsed<T: Deserialize<'a>>(&self, field: Field) -> Option<T> {
        serde_json::from_str(self.raw(field)?.get()).ok()
    }

    fn name(&self, field: Field) -> Option<Arc<str>> {
        self.parsed::<Name>(field).map(|name| name.0)
    }

    /// A number, also one that is written as a text.
    fn number(&self, field: Field) -> Option<f64> {
        let number = self.text(field)?.trim().parse::<f64>().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    fn tokens(&self, field: Field) -> Option<u32> {
        self.number(field).filter(|&count| count <= f64::from(u32::MAX)).map(|count| count as u32)
    }
}

impl Fields {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let lengths: Vec<_> = first
            .iter()
            .filter_map(|bytes| {
                let row = Row { fields: &given.fields, bytes };
                Some((row.tokens(Field::InputTokens)?, row.parsed::<Vec<BlockName>>(Field::HashIds)?.len()))
            })
            .collect();
        Self {
            times: Times::new(given.time_unit, TimeUnit::Seconds),
            block_tokens: given.block_tokens.unwrap_or_else(|| choose_tokens(&lengths, BLOCK_TOKENS).0),
            fit: Fit::default(),
            keeps_body: given.keeps_body,
            found: vec![0; given.fields.len()],
            fields: given.fields.clone(),
        }
    }
}

impl ReadRow for Fields {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        if serde_json::from_slice::<&RawValue>(bytes).is_err() {
            return Err("not JSON".into());
        }
        for (found, (_, path)) in self.found.iter_mut().zip(&self.fields) {
            *found += u64::from(path.find(bytes).is_some());
        }
        let row = Row { fields: &self.fields, bytes };
        let dialect = row.text(Field::Path).map_or(Dialect::Auto, |path| Dialect::of_path(&path));
        let mut record = match row.text(Field::Body) {
            Some(body) => record_of(body.as_bytes(), dialect, self.keeps_body)?,
            None => Record::default(),
        };
        let answer = row.text(Field::Response).map(|answer| Usage::of_answer(&answer)).unwrap_or_default();
        let usage = row.text(Field::Usage).map_or(answer, |usage| Usage::of(&usage));
        let input = row.tokens(Field::InputTokens).or(usage.input_tokens);
        if let Some(names) = row.parsed::<Vec<BlockName>>(Field::HashIds) {
            self.fit.check(names.len(), self.block_tokens, input.ok_or("hash_ids without input_tokens")?)?;
            record.content = Content::Blocks(Blocks { ids: scoped(&names, None), tokens: self.block_tokens });
        }
        if record.content == Content::Unknown && input.is_none() {
            return Err("neither a body nor a length where --field says".into());
        }
        out.push(Record {
            id: row.name(Field::Id),
            at_ms: row.parsed::<Written>(Field::Time).and_then(|time| self.times.ms(time)),
            session: row.name(Field::Session).or(record.session),
            tenant: row.name(Field::Tenant).or(record.tenant),
            model: row.name(Field::Model).or(record.model),
            input_tokens: input,
            output_tokens: row.tokens(Field::OutputTokens).or(usage.output_tokens),
            observed: Observed {
                ttft_ms: row.number(Field::TtftMs),
                e2e_ms: row.number(Field::E2eMs),
                cached_tokens: row.tokens(Field::CachedTokens).or(usage.cached_tokens),
                replica: row.name(Field::Replica),
                status: row.tokens(Field::Status).and_then(|status| u16::try_from(status).ok()),
            },
            ..record
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().chain(self.fit.sentence()).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let missing = self.fields.iter().zip(&self.found).filter(|(_, found)| **found == 0);
        missing
            .map(|((field, _), _)| format!("nothing was found where --field says that {} is", field.name()))
            .collect()
    }
}
