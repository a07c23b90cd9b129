//! Why a trace cannot be read.

use std::io;

use super::format::Format;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read to its end.
    #[error("cannot read {name}")]
    Read {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No format is like its first rows.
    #[error(
        "{name} is in no known format: it has {shape}. Say which one with --format, or where things are with --field"
    )]
    Unknown {
        /// The file.
        name: String,
        /// What its first row is like.
        shape: String,
    },
    /// Its format is another than that of the files before it.
    #[error(
        "{name} is in the format {format}, the files before it in {before}: read them one at a time, or say --format"
    )]
    Mixed {
        /// The file.
        name: String,
        /// Its format.
        format: Format,
        /// The format before it.
        before: Format,
    },
    /// There is nothing to read.
    #[error("nothing to read in {names}")]
    Empty {
        /// What was to be read.
        names: String,
    },
    /// An option cannot be used.
    #[error(transparent)]
    Option(#[from] crate::InvalidOption),
}
