//! Files to records, one at a time.
//!
//! - Every record of the trace is given, once, in the order of the trace. What is left out was asked for and is counted.
//! - A row that cannot be used is passed over; how many there were, and the first reasons, are in the [`Summary`].
//! - Nothing is kept but the current row and what a format needs of earlier ones, which it limits.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;

use super::detect::{self, Look};
use super::field::Field;
use super::format::{Format, Given, ReadRow, TimeBase};
use super::input::Inputs;
use super::path::Path;
use super::rows::{Row, Rows};
use super::selection::Selection;
use super::summary::{REASONS_MAX, Summary};
use super::time::TimeUnit;
use super::{Kind, Record, TraceError};
use crate::InvalidOption;

/// Rows that are looked at before reading begins, and their bytes.
const FIRST_ROWS_MAX: usize = 100;
const FIRST_BYTES_MAX: usize = 8 << 20;
/// Rows of a log that are about other things may come first.
const FIRST_UNKNOWN_ROWS_MAX: usize = 10_000;

/// How a trace is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format; told by the first rows unless given.
    pub format: Option<Format>,
    /// The unit of times that are numbers; what the format has unless given.
    pub time_unit: Option<TimeUnit>,
    /// Tokens a block of hashes; told by the lengths unless given.
    pub block_tokens: Option<u32>,
    /// Records to give at most.
    pub records_max: Option<u64>,
    /// Leave out what comes earlier than this many milliseconds after the first record.
    pub since_ms: Option<f64>,
    /// Leave out what comes later than this many milliseconds after the first record.
    pub until_ms: Option<f64>,
    /// Keep this part (above 0, at most 1) of the sessions, and of the records that have none.
    pub sample: Option<f64>,
    /// Which part a sample is.
    pub sample_seed: u64,
    /// Records hold the body of the request, too, where the trace has it.
    pub keep_bodies: bool,
    /// Where things are in rows of no known format.
    pub fields: Vec<(Field, Path)>,
}

impl ReadOptions {
    fn check(&self) -> Result<(), InvalidOption> {
        if self.block_tokens == Some(0) {
            return Err(InvalidOption::new("block_tokens", "a block has at least one token"));
        }
        if self.sample.is_some_and(|part| !(part > 0.0 && part <= 1.0)) {
            return Err(InvalidOption::new("sample", "a part is above 0 and at most 1"));
        }
        Ok(())
    }
}

/// Reads a trace.
pub struct TraceReader {
    options: ReadOptions,
    inputs: Inputs,
    /// What was to be read, for messages.
    names: String,
    rows: Rows,
    /// Rows that have been looked at, before those in `rows`.
    ahead: VecDeque<Ahead>,
    reader: Option<Box<dyn ReadRow>>,
    /// What would be wrong with the first file that was left out, if it were the only one.
    left_out: Option<TraceError>,
    queue: VecDeque<Record>,
    given: Vec<Record>,
    stage: Stage,
    selection: Selection,
    summary: Summary,
}

/// A row that has been looked at.
struct Ahead {
    line: u64,
    bytes: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A file is to be opened.
    File,
    /// The current file has more rows.
    Rows,
    /// All has been given.
    Done,
}

impl TraceReader {
    /// Reads the files, folders (all files in them, sorted) or standard input (`-`) at `paths`, in this order.
    ///
    /// # Errors
    /// A path cannot be opened, or an option cannot be used.
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Self, TraceError> {
        let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        Self::new(Inputs::new(paths)?, names, options)
    }

    /// Reads one stream, compressed or not, called `name` in messages.
    ///
    /// # Errors
    /// It cannot be read, or an option cannot be used.
    pub fn of_stream(name: &str, read: Box<dyn Read + Send>, options: ReadOptions) -> Result<Self, TraceError> {
        let inputs =
            Inputs::of_stream(name, read).map_err(|source| TraceError::Read { name: name.to_owned(), source })?;
        Self::new(inputs, name.to_owned(), options)
    }

    fn new(inputs: Inputs, names: String, options: ReadOptions) -> Result<Self, TraceError> {
        options.check()?;
        let mut reader = Self {
            selection: Selection::new(&options),
            options,
            inputs,
            names,
            rows: Rows::new(),
            ahead: VecDeque::new(),
            reader: None,
            left_out: None,
            queue: VecDeque::new(),
            given: Vec::new(),
            stage: Stage::File,
            summary: Summary::default(),
        };
        if reader.inputs.is_open() {
            reader.begin_file()?;
        }
        Ok(reader)
    }

    /// What has been read so far; complete once there are no more records.
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        if let Some(reader) = &self.reader {
            summary.assumptions = reader.assumptions();
            summary.time_base = reader.time_base();
            summary.warnings.extend(reader.warnings());
        }
        self.selection.tell(&mut summary);
        summary
    }

    /// Bytes read of the files as they lie on the disk, and how many there are, where that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        self.inputs.progress()
    }

    fn step(&mut self) -> Result<(), TraceError> {
        match self.stage {
            Stage::File if self.inputs.advance()? => self.begin_file(),
            Stage::File => self.finish(),
            Stage::Rows => self.row(),
            Stage::Done => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.stage = Stage::Done;
        if let Some(reader) = &mut self.reader {
            reader.finish(&mut self.given);
            self.take_given();
            return Ok(());
        }
        Err(self.left_out.take().unwrap_or_else(|| TraceError::Empty { names: self.names.clone() }))
    }

    /// Looks at the first rows of a file and finds out what it is.
    fn begin_file(&mut self) -> Result<(), TraceError> {
        self.rows = Rows::new();
        self.stage = Stage::Rows;
        let told = self.look_ahead()?;
        let name = || self.inputs.name().to_owned();
        let first: Vec<&[u8]> = self.ahead.iter().filter_map(|row| row.bytes.as_deref()).collect();
        let Some(&first_row) = first.first() else {
            // An empty file is no trace, and no fault among others.
            return Ok(());
        };
        let format = match (told, self.summary.format) {
            (Some(format), None) => format,
            (Some(format), Some(before)) if format == before => format,
            _ if self.inputs.is_found() => {
                self.pass_file(told, first_row_shape(first_row));
                return Ok(());
            }
            (Some(format), Some(before)) => return Err(TraceError::Mixed { name: name(), format, before }),
            (None, _) => {
                return Err(TraceError::Unknown { name: name(), shape: first_row_shape(first_row) });
            }
        };
        let given = Given {
            time_unit: self.options.time_unit,
            block_tokens: self.options.block_tokens,
            keeps_body: self.options.keep_bodies,
            fields: self.options.fields.clone(),
        };
        let reader = self.reader.get_or_insert_with(|| detect::reader_of(format, &given, &first));
        reader.begin_file();
        self.summary.format = Some(format);
        self.summary.files += 1;
        Ok(())
    }

    /// Leaves a file out that was found beside others.
    fn pass_file(&mut self, told: Option<Format>, shape: String) {
        let name = self.inputs.name().to_owned();
        let why = match told {
            Some(format) => format!("is in the format {format}"),
            None => "is in no known format".to_owned(),
        };
        self.summary.files_left_out += 1;
        if self.summary.files_left_out <= REASONS_MAX as u64 {
            self.summary.warnings.push(format!("{name} {why}, and was left out"));
        }
        self.left_out.get_or_insert(TraceError::Unknown { name, shape });
        self.ahead.clear();
        self.stage = Stage::File;
    }

    /// Takes the first rows, and tells their format.
    fn look_ahead(&mut self) -> Result<Option<Format>, TraceError> {
        let mut told = self.options.format.or((!self.options.fields.is_empty()).then_some(Format::Fields));
        let mut bytes = 0;
        while bytes < FIRST_BYTES_MAX {
            let rows_max = if told.is_some() { FIRST_ROWS_MAX } else { FIRST_UNKNOWN_ROWS_MAX };
            if self.ahead.len() >= rows_max {
                break;
            }
            let Some(row) = self.next_row_of_file()? else { break };
            bytes += row.bytes.as_ref().map_or(0, Vec::len);
            told = told.or_else(|| row.bytes.as_deref().and_then(detect::format_of));
            self.ahead.push_back(row);
        }
        Ok(told)
    }

    fn next_row_of_file(&mut self) -> Result<Option<Ahead>, TraceError> {
        match self.rows.next(&mut self.inputs) {
            Ok(row) => Ok(row.map(|row| Ahead { line: row.line, bytes: row.bytes.map(<[u8]>::to_vec) })),
            Err(source) => Err(TraceError::Read { name: self.inputs.name().to_owned(), source }),
        }
    }

    fn row(&mut self) -> Result<(), TraceError> {
        let Some(reader) = &mut self.reader else {
            self.stage = Stage::File;
            return Ok(());
        };
        let kept = self.ahead.pop_front();
        let row = match &kept {
            Some(row) => Some(Row { line: row.line, bytes: row.bytes.as_deref() }),
            None => match self.rows.next(&mut self.inputs) {
                Ok(row) => row,
                Err(source) => return Err(TraceError::Read { name: self.inputs.name().to_owned(), source }),
            },
        };
        let Some(row) = row else {
            self.stage = Stage::File;
            return Ok(());
        };
        self.summary.rows += 1;
        let read = match row.bytes {
            Some(bytes) => reader.read(bytes, &mut self.given),
            None => Err("the row is too long".to_owned()),
        };
        if let Err(reason) = read {
            self.given.clear();
            self.summary.skipped += 1;
            if self.summary.skipped_first.len() < REASONS_MAX {
                self.summary.skipped_first.push(format!("{}:{}: {reason}", self.inputs.name(), row.line));
            }
        }
        self.take_given();
        Ok(())
    }

    fn take_given(&mut self) {
        for record in self.given.drain(..) {
            if self.selection.wants(&record) {
                self.queue.push_back(record);
            } else {
                self.summary.left_out += 1;
            }
        }
    }

    fn count(&mut self, record: &Record) {
        self.summary.records += 1;
        self.summary.kinds[match record.kind() {
            Kind::Lengths => 0,
            Kind::Hashes => 1,
            Kind::Content => 2,
        }] += 1;
        self.summary.without_time += u64::from(record.at_ms.is_none());
        let is_per_session = self.reader.as_ref().is_some_and(|reader| reader.time_base() == TimeBase::Session);
        self.summary.out_of_order += u64::from(self.selection.clock.is_late(record, is_per_session));
    }
}

fn first_row_shape(row: &[u8]) -> String {
    Look::at(row).map_or_else(|| "bytes that are not text".into(), |look| look.shape())
}

impl Iterator for TraceReader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.options.records_max.is_some_and(|max| self.summary.records >= max) {
                return None;
            }
            if let Some(record) = self.queue.pop_front() {
                self.count(&record);
                return Some(Ok(record));
            }
            if self.stage == Stage::Done {
                return None;
            }
            if let Err(error) = self.step() {
                self.stage = Stage::Done;
                return Some(Err(error));
            }
        }
    }
}
