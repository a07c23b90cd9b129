//! Writes frames.

use bytes::{BufMut, BytesMut};

use super::{CRC_BYTES, HEADER_VALUE_BYTES_MAX, LENGTHS_BYTES, PAYLOAD_BYTES_MAX, PRELUDE_BYTES, STRING_TYPE};

/// Appends `bytes` of the answer as `PayloadPart` events; nothing if there are none.
pub fn write_payload(bytes: &[u8], out: &mut BytesMut) {
    for payload in bytes.chunks(PAYLOAD_BYTES_MAX) {
        let headers =
            [(":message-type", "event"), (":event-type", "PayloadPart"), (":content-type", "application/octet-stream")];
        write_frame(&headers, payload, out);
    }
}

/// Appends a modeled error: clients raise it under the name `exception_type`. `payload` is its JSON members.
pub fn write_exception(exception_type: &str, payload: &[u8], out: &mut BytesMut) {
    let headers =
        [(":message-type", "exception"), (":exception-type", exception_type), (":content-type", "application/json")];
    write_frame(&headers, &payload[..payload.len().min(PAYLOAD_BYTES_MAX)], out);
}

/// Appends an error that no model describes.
pub fn write_error(code: &str, message: &str, out: &mut BytesMut) {
    let headers = [(":message-type", "error"), (":error-code", code), (":error-message", message)];
    write_frame(&headers, &[], out);
}

fn write_frame(headers: &[(&str, &str)], payload: &[u8], out: &mut BytesMut) {
    let start = out.len();
    out.reserve(PRELUDE_BYTES + 128 + payload.len() + CRC_BYTES);
    out.put_bytes(0, PRELUDE_BYTES);
    for (name, value) in headers {
        write_header(name, value, out);
    }
    let headers_bytes = out.len() - start - PRELUDE_BYTES;
    out.put_slice(payload);
    let total_bytes = out.len() - start + CRC_BYTES;

    let frame = &mut out[start..];
    frame[..4].copy_from_slice(&be_u32(total_bytes));
    frame[4..LENGTHS_BYTES].copy_from_slice(&be_u32(headers_bytes));
    let prelude_crc = crc32fast::hash(&frame[..LENGTHS_BYTES]);
    frame[LENGTHS_BYTES..PRELUDE_BYTES].copy_from_slice(&prelude_crc.to_be_bytes());
    let frame_crc = crc32fast::hash(frame);
    out.put_u32(frame_crc);
}

/// The lengths are bounded by the limits of headers and payload, far below `u32::MAX`.
fn be_u32(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// A value beyond the limit is cut between characters: an error text that is too long is still an error text.
fn write_header(name: &str, value: &str, out: &mut BytesMut) {
    let value = &value[..value.floor_char_boundary(HEADER_VALUE_BYTES_MAX)];
    debug_assert!(name.len() <= usize::from(u8::MAX));
    out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.put_slice(name.as_bytes());
    out.put_u8(STRING_TYPE);
    out.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
    out.put_slice(value.as_bytes());
}
