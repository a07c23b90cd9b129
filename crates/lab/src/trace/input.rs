//! Paths to bytes: files, folders, standard input, compressed or not, packed together or not.
//!
//! Rules:
//! - What a file is tells its content (magic bytes), never its name. `.gz`, `.zst` and `.xz` are unpacked; the members of
//!   a `.tar` in any of them are files of their own.
//! - A folder stands for its files, sorted by name, and those of its folders. Hidden ones are left out.
//! - Everything is streamed. What is kept is a window of the compression: at most 128 MiB (zstd, xz), else less.

mod tar;
mod unpack;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::tar::Tar;
use super::TraceError;

/// Folders inside each other, at most: a link that leads back must not lead round for ever.
const FOLDER_DEPTH_MAX: usize = 16;

/// The name of standard input among paths.
const STDIN: &str = "-";

/// A file to be read.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// It was found in a folder, not named: it may be something else than a trace.
    is_found: bool,
}

/// A file that is being read.
enum Open {
    Plain(Box<dyn Read + Send>),
    Packed(Tar<Box<dyn Read + Send>>),
}

/// The files of a trace, one after the other. As a reader it gives the current one.
pub(super) struct Inputs {
    places: VecDeque<Place>,
    open: Option<Open>,
    name: String,
    is_found: bool,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
}

impl Inputs {
    /// The files of `paths`; nothing is opened yet.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self, TraceError> {
        let mut places = VecDeque::new();
        let mut bytes_total = Some(0);
        for path in paths {
            gather(path, false, 0, &mut places, &mut bytes_total)?;
        }
        Ok(Self {
            places,
            open: None,
            name: String::new(),
            is_found: false,
            bytes_read: Arc::default(),
            bytes_total: bytes_total.filter(|&total| total > 0),
        })
    }

    /// One stream of bytes, called `name` in messages.
    pub(super) fn of_stream(name: &str, read: Box<dyn Read + Send>) -> io::Result<Self> {
        Ok(Self {
            places: VecDeque::new(),
            open: Some(open(read)?),
            name: name.to_owned(),
            is_found: false,
            bytes_read: Arc::default(),
            bytes_total: None,
        })
    }

    /// Goes to the next file; `false` when there is none.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        loop {
            if let Some(Open::Packed(tar)) = &mut self.open {
                let member = tar.advance().map_err(|source| TraceError::Read { name: self.name.clone(), source })?;
                if let Some(member) = member {
                    self.name = member;
                    // Whoever packs a folder packs what lies beside the trace, too.
                    self.is_found = true;
                    return Ok(true);
                }
            }
            let Some(place) = self.places.pop_front() else { return Ok(false) };
            self.name = if place.path == Path::new(STDIN) { "stdin".into() } else { place.path.display().to_string() };
            self.is_found = place.is_found;
            let opened = self.open_place(&place);
            self.open = Some(opened.map_err(|source| TraceError::Open { name: self.name.clone(), source })?);
            if matches!(self.open, Some(Open::Plain(_))) {
                return Ok(true);
            }
        }
    }

    fn open_place(&self, place: &Place) -> io::Result<Open> {
        if place.path == Path::new(STDIN) {
            return open(Box::new(io::stdin()));
        }
        let counted = Counted { file: File::open(&place.path)?, bytes: Arc::clone(&self.bytes_read) };
        open(Box::new(BufReader::with_capacity(128 << 10, counted)))
    }

    /// The file of [`Self::of_stream`] is the first one; all others come with [`Self::advance`].
    pub(super) fn is_open(&self) -> bool {
        matches!(self.open, Some(Open::Plain(_)))
    }

    /// The current file's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// It was found in a folder or an archive, not named.
    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }

    /// Bytes read of all files as they lie on the disk, and how many there are, where that is known.
    pub(super) fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }
}

impl Read for Inputs {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.open {
            Some(Open::Plain(read)) => read.read(out),
            Some(Open::Packed(tar)) => tar.read(out),
            None => Ok(0),
        }
    }
}

fn open(read: Box<dyn Read + Send>) -> io::Result<Open> {
    let unpacked = unpack::unpack(read)?;
    let (is_tar, read) = tar::recognise(unpacked)?;
    Ok(if is_tar { Open::Packed(Tar::new(read)) } else { Open::Plain(read) })
}

fn gather(
    path: &Path,
    is_found: bool,
    depth: usize,
    places: &mut VecDeque<Place>,
    bytes_total: &mut Option<u64>,
) -> Result<(), TraceError> {
    let fault = |source| TraceError::Open { name: path.display().to_string(), source };
    if path == Path::new(STDIN) {
        *bytes_total = None;
        places.push_back(Place { path: path.to_owned(), is_found });
        return Ok(());
    }
    let about = std::fs::metadata(path).map_err(fault)?;
    if !about.is_dir() {
        *bytes_total = bytes_total.filter(|_| about.is_file()).map(|total| total.saturating_add(about.len()));
        places.push_back(Place { path: path.to_owned(), is_found });
        return Ok(());
    }
    if depth == FOLDER_DEPTH_MAX {
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            entries.push(entry.path());
        }
    }
    entries.sort();
    for entry in entries {
        gather(&entry, true, depth + 1, places, bytes_total)?;
    }
    Ok(())
}

/// A file that says how far it was read.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
