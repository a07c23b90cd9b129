//! Frames do not depend on how the stream is cut, and what is written is read.
#![no_main]

use bytes::BytesMut;
use kvroute_fuzz::{chunks, split};
use kvroute_wire::eventstream::{DecodeError, Decoder, Frame, write_error, write_exception, write_payload};
use libfuzzer_sys::fuzz_target;

fn decoded(bytes: &[u8], cut: u8) -> (Vec<Frame>, Result<(), DecodeError>, bool) {
    let (mut decoder, mut frames) = (Decoder::new(), vec![]);
    let outcome = chunks(bytes, cut).into_iter().try_for_each(|chunk| decoder.feed(chunk, &mut frames));
    (frames, outcome, decoder.is_between_frames())
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    assert_eq!(decoded(bytes, 0), decoded(bytes, cut));
    // The checksums hide everything behind them from a fuzzer, so the bytes are framed too, and then damaged.
    let (mut written, text) = (BytesMut::new(), String::from_utf8_lossy(bytes));
    write_payload(bytes, &mut written);
    write_exception("ModelStreamError", bytes, &mut written);
    write_error("code", &text, &mut written);
    let (frames, outcome, complete) = decoded(&written, cut);
    assert!(outcome.is_ok() && complete);
    assert_eq!(frames.len(), 2 + usize::from(!bytes.is_empty()));
    assert!(frames.iter().rev().skip(1).all(|frame| frame.payload == bytes));
    let at = usize::from(variant) % written.len();
    written[at] ^= variant | 1;
    decoded(&written, cut).1.unwrap_err();
    with_right_checksums(bytes, cut);
});

/// A frame whose headers are the input: lengths and checksums are right, so the headers are looked into.
fn with_right_checksums(headers: &[u8], cut: u8) {
    let total = (12 + headers.len() + 4) as u32;
    let mut frame = [total.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame.extend_from_slice(headers);
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    assert_eq!(decoded(&frame, 0), decoded(&frame, cut));
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}
