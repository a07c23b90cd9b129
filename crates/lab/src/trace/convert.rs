//! A trace of any format to Mooncake's rows: as it is, scaled, or without what it says.

use std::io::{self, Write};

use super::scale::{Scale, ScaleError};
use super::{Anonymizer, Content, Record, Reorder, SmallNames, Spread, TraceError, TraceWriter, regroup};
use crate::InvalidOption;

/// Records that a log may be out of order.
const REORDER_WINDOW: usize = 1_024;

/// What is done to the records of a trace.
#[derive(Debug, Default)]
pub struct Conversion {
    /// Text may be written.
    pub shows_text: bool,
    /// What is said is taken out.
    pub anonymizer: Option<Anonymizer>,
    /// Tokens a block afterwards; a multiple of what it is.
    pub to_block_tokens: Option<u32>,
    /// How sessions lie to each other, where the trace does not say; the whole trace is in memory then.
    pub spread: Option<Spread>,
    /// How time and lengths are scaled.
    pub scale: Option<Scale>,
    /// Names of blocks become small numbers.
    pub small_names: bool,
}

/// Why a trace cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An option does not fit it.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// It cannot be scaled so.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// It has prompts, and showing them was not asked for.
    #[error(
        "the trace holds the text of prompts: `kvroute trace anonymize` writes hashes instead, --show-text writes the text"
    )]
    HasText,
    /// It cannot be written.
    #[error("cannot write")]
    Write(#[source] io::Error),
}

/// Writes the records of a trace, in the order of their times (where they are nearly in order, as logs are), counted from
/// the first one on. Gives how many.
///
/// # Errors
/// See [`ConvertError`]; what was written before stays.
pub fn convert(
    records: impl Iterator<Item = Result<Record, TraceError>>,
    conversion: Conversion,
    out: impl Write,
) -> Result<u64, ConvertError> {
    let Conversion { shows_text, anonymizer, to_block_tokens, spread, mut scale, small_names } = conversion;
    let mut small = small_names.then(SmallNames::default);
    let mut sink = Sink { out: Some(out), writer: None, written: 0 };
    let mut reorder = Reorder::new(REORDER_WINDOW);
    let records: Box<dyn Iterator<Item = Result<Record, TraceError>>> = match spread {
        Some(spread) => Box::new(spread.apply(records.collect::<Result<_, _>>()?).into_iter().map(Ok)),
        None => Box::new(records),
    };
    for record in records {
        let mut record = record?;
        if let Some(anonymizer) = &anonymizer {
            record = anonymizer.anonymize(&record);
        }
        if !shows_text && matches!(record.content, Content::Text(_) | Content::TokenIds(_)) {
            return Err(ConvertError::HasText);
        }
        if let Some(tokens) = to_block_tokens {
            record = regroup(record, tokens)?;
        }
        if let Some(scale) = &mut scale {
            record = scale.apply(record)?;
        }
        if let Some(small) = &mut small {
            record = small.rename(record);
        }
        if let Some(due) = reorder.push(record) {
            sink.write(&due)?;
        }
    }
    while let Some(due) = reorder.pop() {
        sink.write(&due)?;
    }
    sink.finish()
}

/// Where rows go: the first one tells what times are counted from.
struct Sink<W> {
    out: Option<W>,
    writer: Option<TraceWriter<W>>,
    written: u64,
}

impl<W: Write> Sink<W> {
    fn write(&mut self, record: &Record) -> Result<(), ConvertError> {
        if let Some(out) = self.out.take() {
            self.writer = Some(TraceWriter::new(out, record.at_ms.unwrap_or(0.0)));
        }
        self.written += 1;
        let writer = self.writer.as_mut();
        writer.map_or(Ok(()), |writer| writer.write(record)).map_err(ConvertError::Write)
    }

    fn finish(self) -> Result<u64, ConvertError> {
        if let Some(writer) = self.writer {
            writer.finish().map_err(ConvertError::Write)?;
        }
        Ok(self.written)
    }
}
