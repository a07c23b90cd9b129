//! The AWS event-stream framing of SageMaker's response streams.
//!
//! A frame is: total length (u32), header length (u32), CRC-32 of these eight bytes, headers, payload, CRC-32 of
//! everything before; all big-endian. A header is: name length (u8), name, type (u8), value; the only type written here
//! is 7, a string with its length (u16).
//!
//! The bounds of payload parts carry no meaning: joined, they are the bytes of the answer. There is no end frame; a
//! stream that breaks must say so with an exception, since clients take a plain end as success.

mod decode;
mod encode;

pub use decode::{DecodeError, Decoder, Frame};
pub use encode::{write_error, write_exception, write_payload};

/// Bytes of a payload: the most that AWS clients accept. A longer answer becomes several frames.
pub const PAYLOAD_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Bytes of all headers of a frame: the most that AWS clients accept.
pub const HEADERS_BYTES_MAX: usize = 128 * 1024;

/// Bytes of a header's string; AWS clients read the length as signed.
pub const HEADER_VALUE_BYTES_MAX: usize = 32_767;

/// The content type of a response stream.
pub const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// Both lengths.
const LENGTHS_BYTES: usize = 8;
/// Both lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
const CRC_BYTES: usize = 4;
const STRING_TYPE: u8 = 7;
