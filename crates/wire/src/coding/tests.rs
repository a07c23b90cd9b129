//! The samples were written by gzip 1.12, zstd 1.5 (with a checksum) and Node's zlib and brotli; a bomb is 4 MiB of
//! spaces.

use proptest::prelude::*;
use zlib_rs::{Deflate, DeflateFlush, Status};

use super::{Coding, CodingError, Decoder, MEMBERS_MAX, PIECE_BYTES_MAX};

const PLAIN: &[u8] = include_bytes!("samples/chat.json");
const GZIP: &[u8] = include_bytes!("samples/chat.json.gz");
const ZSTD: &[u8] = include_bytes!("samples/chat.json.zst");
const BROTLI: &[u8] = include_bytes!("samples/chat.json.br");
const SAMPLES: [(Coding, &[u8]); 5] = [
    (Coding::Gzip, GZIP),
    (Coding::Deflate, include_bytes!("samples/chat.json.zlib")),
    (Coding::Deflate, include_bytes!("samples/chat.json.deflate")),
    (Coding::Brotli, BROTLI),
    (Coding::Zstd, ZSTD),
];
const BOMB_BYTES: u64 = 4 << 20;
const BOMBS: [(Coding, &[u8]); 4] = [
    (Coding::Gzip, include_bytes!("samples/bomb.gz")),
    (Coding::Deflate, include_bytes!("samples/bomb.zlib")),
    (Coding::Brotli, include_bytes!("samples/bomb.br")),
    (Coding::Zstd, include_bytes!("samples/bomb.zst")),
];

/// What comes out of a body in these chunks, and how it ends.
fn decoded<'a>(
    coding: Coding,
    chunks: impl IntoIterator<Item = &'a [u8]>,
    bytes_max: u64,
) -> (Vec<u8>, Result<(), CodingError>) {
    let (mut decoder, mut plain) = (Decoder::new(coding, bytes_max), Vec::new());
    for mut chunk in chunks {
        loop {
            match decoder.next(&mut chunk) {
                Ok([]) => break,
                Ok(piece) => {
                    assert!(piece.len() <= PIECE_BYTES_MAX);
                    plain.extend_from_slice(piece);
                }
                Err(error) => return (plain, Err(error)),
            }
        }
        assert!(chunk.is_empty(), "{coding:?} leaves bytes");
    }
    let end = decoder.finish();
    (plain, end)
}

fn whole(coding: Coding, body: &[u8]) -> (Vec<u8>, Result<(), CodingError>) {
    decoded(coding, [body], u64::MAX)
}

#[test]
fn what_real_encoders_write_is_read_in_any_cut() {
    for (coding, body) in SAMPLES {
        for size in [1, 2, 3, 7, 100, 4_000, body.len()] {
            let (plain, end) = decoded(coding, body.chunks(size), u64::MAX);
            assert!(end == Ok(()) && plain == PLAIN, "{coding:?} in chunks of {size}: {end:?}");
        }
        for cut in (0..200).chain(body.len() - 50..=body.len()) {
            let (plain, end) = decoded(coding, [&body[..cut], &body[cut..]], u64::MAX);
            assert!(end == Ok(()) && plain == PLAIN, "{coding:?} cut at {cut}: {end:?}");
        }
    }
}

#[test]
fn a_body_that_grows_beyond_the_limit_is_stopped_there() {
    for (coding, body) in BOMBS {
        assert_eq!(decoded(coding, [body], BOMB_BYTES).1, Ok(()), "{coding:?}");
        let (plain, end) = decoded(coding, [body], BOMB_BYTES - 1);
        assert_eq!(end, Err(CodingError::TooLarge), "{coding:?}");
        assert!(plain.len() as u64 > BOMB_BYTES - 1 - PIECE_BYTES_MAX as u64);
        let (plain, end) = decoded(coding, [body], 1_000);
        assert_eq!((plain.len(), end), (0, Err(CodingError::TooLarge)), "{coding:?}");
    }
}

#[test]
fn a_body_that_ends_early_is_not_complete_wherever_it_ends() {
    for (coding, body) in SAMPLES {
        for end in (0..100).chain((100..body.len()).step_by(37)).chain([body.len() - 1]) {
            let (plain, end) = whole(coding, &body[..end]);
            assert_eq!(end, Err(CodingError::Truncated), "{coding:?}");
            assert!(PLAIN.starts_with(&plain), "{coding:?}");
        }
    }
}

#[test]
fn damage_is_seen_where_the_format_has_a_checksum() {
    for (coding, body) in SAMPLES {
        let has_checksum = coding != Coding::Brotli && body != SAMPLES[2].1;
        for at in (0..64).chain((64..body.len()).step_by(11)) {
            let mut damaged = body.to_vec();
            damaged[at] ^= 0x55;
            let (plain, end) = whole(coding, &damaged);
            // A header also holds what has no effect, as the time in gzip's.
            assert!(!has_checksum || end.is_err() || plain == PLAIN, "{coding:?} at {at}: {end:?}");
        }
    }
}

#[test]
fn what_is_of_no_coding_or_another_is_damage() {
    for coding in Coding::ALL {
        for (other, body) in SAMPLES {
            if coding != other {
                assert_ne!(whole(coding, body).1, Ok(()), "{other:?} read as {coding:?}");
            }
        }
        assert_eq!(whole(coding, PLAIN).1, Err(CodingError::Damaged), "{coding:?}");
    }
}

#[test]
fn what_follows_the_end_is_damage() {
    for (coding, body) in SAMPLES {
        for cut in [true, false] {
            let tail = b"{}{}{}{}".as_slice();
            let joined = [body, tail].concat();
            let chunks = if cut { vec![body, tail] } else { vec![&joined[..]] };
            let (plain, end) = decoded(coding, chunks, u64::MAX);
            assert!(end == Err(CodingError::Damaged) && plain == PLAIN, "{coding:?}: {end:?}");
        }
    }
}

/// Where the output is full at the last byte, the end is found later, and may need no more input.
#[test]
fn what_follows_an_end_that_is_found_late_is_damage_too() {
    for variant in 0..32 {
        let plain: Vec<u8> =
            (0..PIECE_BYTES_MAX as u32).map(|i| ((i * i) >> (variant % 8)) as u8 % (variant + 2)).collect();
        let mut body = vec![0; 2 * PIECE_BYTES_MAX];
        let mut deflate = Deflate::new(6, false, 15);
        assert_eq!(deflate.compress(&plain, &mut body, DeflateFlush::Finish), Ok(Status::StreamEnd));
        body.truncate(deflate.total_out() as usize);
        assert_eq!(whole(Coding::Deflate, &body), (plain, Ok(())), "{variant}");
        body.push(b'y');
        assert_eq!(whole(Coding::Deflate, &body).1, Err(CodingError::Damaged), "{variant}");
    }
}

#[test]
fn members_are_joined_up_to_a_limit() {
    let skipped = b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc".as_slice();
    for (coding, body, between) in [(Coding::Gzip, GZIP, &b""[..]), (Coding::Zstd, ZSTD, skipped)] {
        let joined = [body, between, body, between].concat();
        for size in [1, 5, joined.len()] {
            let (plain, end) = decoded(coding, joined.chunks(size), u64::MAX);
            assert!(end == Ok(()) && plain == [PLAIN, PLAIN].concat(), "{coding:?}: {end:?}");
        }
    }
    let empty_gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0".as_slice();
    let empty_zstd = b"\x28\xb5\x2f\xfd\x20\x00\x01\0\0".as_slice();
    for (coding, member) in [(Coding::Gzip, empty_gzip), (Coding::Zstd, empty_zstd), (Coding::Zstd, skipped)] {
        let members = MEMBERS_MAX as usize;
        assert_eq!(whole(coding, &member.repeat(members)), (vec![], Ok(())), "{coding:?}");
        assert_eq!(whole(coding, &member.repeat(members + 1)).1, Err(CodingError::TooManyMembers), "{coding:?}");
    }
}

#[test]
fn a_window_beyond_the_limit_is_refused_before_it_is_made() {
    // 16 MiB, in a frame of one empty block.
    assert_eq!(whole(Coding::Zstd, b"\x28\xb5\x2f\xfd\x00\x70\x01\0\0").1, Err(CodingError::Damaged));
    assert_eq!(whole(Coding::Zstd, b"\x28\xb5\x2f\xfd\x00\x68\x01\0\0").1, Ok(()), "8 MiB");
    // brotli's extension for large windows, of 30 bits.
    assert_eq!(whole(Coding::Brotli, b"\x11\x1e\x03").1, Err(CodingError::Damaged));
}

#[test]
fn codings_are_known_by_their_names_in_any_case() {
    for (name, coding) in [
        ("gzip", Some(Coding::Gzip)),
        ("X-GZIP", Some(Coding::Gzip)),
        ("Deflate", Some(Coding::Deflate)),
        ("br", Some(Coding::Brotli)),
        ("zstd", Some(Coding::Zstd)),
        ("compress", None),
        ("identity", None),
        ("", None),
    ] {
        assert_eq!(Coding::of(name.as_bytes()), coding, "{name}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_cutting_makes_no_difference(
        sample in 0..SAMPLES.len(),
        from in 0usize..200,
        change in proptest::collection::vec((0usize..3_000, any::<u8>()), 0..4),
        size in 1usize..100,
    ) {
        let (coding, body) = SAMPLES[sample];
        let mut body = body[..].to_vec();
        change.iter().for_each(|&(at, byte)| body[at] = byte);
        let body = &body[from / 150..]; // now and then without the first byte
        let (plain, end) = decoded(coding, [body], 1 << 20);
        let (cut_plain, cut_end) = decoded(coding, body.chunks(size), 1 << 20);
        prop_assert_eq!(end.is_ok(), cut_end.is_ok());
        prop_assert!(end.is_err() || plain == cut_plain);
    }
}
