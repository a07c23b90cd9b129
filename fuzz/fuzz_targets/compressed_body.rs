//! A decoder of any coding gives the same in every cut, takes all of its input, and keeps to its limit.
#![no_main]

use kvroute_fuzz::{chunks, split};
use kvroute_wire::coding::{Coding, CodingError, Decoder, PIECE_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

const PLAIN_BYTES_MAX: u64 = 1 << 20;

fn decode(coding: Coding, bytes: &[u8], cut: u8) -> Result<Vec<u8>, CodingError> {
    let (mut decoder, mut plain) = (Decoder::new(coding, PLAIN_BYTES_MAX), Vec::new());
    for mut chunk in chunks(bytes, cut) {
        loop {
            let piece = decoder.next(&mut chunk)?;
            assert!(piece.len() <= PIECE_BYTES_MAX);
            if piece.is_empty() {
                break;
            }
            plain.extend_from_slice(piece);
        }
        assert!(chunk.is_empty(), "bytes are left");
    }
    assert!(plain.len() as u64 <= PLAIN_BYTES_MAX);
    decoder.finish()?;
    Ok(plain)
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    let coding = Coding::ALL[usize::from(variant) % Coding::ALL.len()];
    // Which fault is found first may differ.
    assert_eq!(decode(coding, bytes, 0).ok(), decode(coding, bytes, cut).ok());
});
