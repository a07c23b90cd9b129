//! vLLM's server log. Which line tells a request depends on what it logs: the body (`JSON body:`), else the prompt
//! (`details: prompt:` with `prompt_token_ids`), else only that there was one (`Received request`); the first rows decide.
//!
//! Its times have no year, so they are read as of the year 2000: only their distances count.

use kvroute_wire::request::Dialect;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Content, Record};
use crate::trace::time::parse_date;

const BODY: &str = " JSON body: ";
const DETAILS: &str = " details: prompt: ";
const TOKEN_IDS: &str = ", prompt_token_ids: [";
const RECEIVED: &str = "Received request ";
const PARAMS: &str = ": params: ";
const MAX_TOKENS: &str = "max_tokens=";

/// The line that tells a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Body,
    Details,
    Received,
}

impl Line {
    fn of(line: &str) -> Option<Self> {
        if line.contains(BODY) && line.contains("Request ") {
            Some(Self::Body)
        } else if line.contains(DETAILS) && line.contains(TOKEN_IDS) {
            Some(Self::Details)
        } else if line.contains(RECEIVED) && line.contains(PARAMS) {
            Some(Self::Received)
        } else {
            None
        }
    }
}

pub(super) fn recognises(look: &Look<'_>) -> bool {
    matches!(look, Look::Text(line) if Line::of(line).is_some())
}

/// Reads such a log.
pub(super) struct VllmLog {
    line: Line,
    keeps_body: bool,
    cut: u64,
}

impl VllmLog {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let lines: Vec<_> = first.iter().filter_map(|row| Line::of(std::str::from_utf8(row).ok()?)).collect();
        let line = [Line::Body, Line::Details].into_iter().find(|line| lines.contains(line));
        Self { line: line.unwrap_or(Line::Received), keeps_body: given.keeps_body, cut: 0 }
    }

    fn body(&mut self, line: &str) -> Result<Record, String> {
        let body = line.split_once(BODY).map_or("", |(_, body)| body.trim());
        record_of(body.as_bytes(), Dialect::Auto, self.keeps_body).map_err(|why| {
            let is_cut = !body.ends_with('}');
            self.cut += u64::from(is_cut);
            if is_cut { "the body was cut where it was logged (--max-log-len)".to_owned() } else { why }
        })
    }
}

impl ReadRow for VllmLog {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let line = String::from_utf8_lossy(row);
        if Line::of(&line) != Some(self.line) {
            return Ok(());
        }
        let record = match self.line {
            Line::Body => self.body(&line)?,
            Line::Details => Record { content: token_ids(&line)?, ..Record::default() },
            Line::Received => Record { output_tokens_max: max_tokens(&line), ..Record::default() },
        };
        let name = line.split_once("equest ").and_then(|(_, rest)| rest.split([' ', ':']).next());
        out.push(Record { id: name.map(Into::into), at_ms: time_ms(&line), ..record });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let read = match self.line {
            Line::Body => "a request is a line with its JSON body",
            Line::Details => "a request is a line with the token ids of its prompt",
            Line::Received => "a request is a line that says so: the log has neither bodies nor lengths",
        };
        vec![read.to_owned(), "times have no year, so only their distances are used".to_owned()]
    }

    fn warnings(&self) -> Vec<String> {
        let cut = self.cut;
        if cut == 0 {
            return Vec::new();
        }
        vec![format!("{cut} bodies were cut where they were logged: long prompts are missing; raise --max-log-len")]
    }
}

fn token_ids(line: &str) -> Result<Content, String> {
    let list = line.split_once(TOKEN_IDS).map_or("", |(_, list)| list);
    let (list, _) = list.split_once(']').ok_or("the token ids were cut where they were logged (--max-log-len)")?;
    let ids: Result<Vec<u32>, _> = list.split(',').map(|id| id.trim().parse()).collect();
    Ok(Content::TokenIds(ids.map_err(|_| "the token ids are no numbers")?.into()))
}

fn max_tokens(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once(MAX_TOKENS)?;
    rest.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// The first `08-01 10:00:00` of a line.
fn time_ms(line: &str) -> Option<f64> {
    const WRITTEN: usize = "08-01 10:00:00".len();
    let starts = line.match_indices(' ').map(|(at, _)| at + 1).chain([0]).take(16);
    starts.filter_map(|at| line.get(at..at + WRITTEN)).find_map(|text| parse_date(&format!("2000-{text}")))
}
