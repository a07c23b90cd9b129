//! Compressed bodies: their plain bytes go to the scanner while they arrive. What reaches a replica is what came, unless
//! its endpoint asks for plain bodies; only then are the plain bytes kept.

use bytes::Bytes;
use http::{HeaderMap, header};
use kvroute_wire::coding::{Coding, CodingError, Decoder};

use super::Refusal;
use super::held::Held;
use crate::config;
use crate::upstream::body::Pieces;

/// Plain bytes after which other requests have their turn: a few milliseconds of work.
const TURN_BYTES: usize = 512 << 10;

/// What is known of a compressed body's plain bytes.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// How many there are.
    pub(super) bytes: u64,
    /// The first of them, as many as a key may be made of.
    pub(super) beginning: Vec<u8>,
    /// All of them, where they may be needed.
    pub(super) pieces: Option<Pieces>,
}

/// Decompresses one body.
#[derive(Debug)]
pub(super) struct Unpacker {
    decoder: Decoder,
    coding: Coding,
    bytes_max: u64,
    /// Of all bodies together; plain bytes count where they are kept.
    bodies_bytes_max: usize,
    beginning_bytes_max: usize,
    plain: Unpacked,
}

/// How a body is compressed, if it is.
pub(super) fn coding_of(headers: &HeaderMap) -> Result<Option<Coding>, Refusal> {
    let lists = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let tokens = lists.flat_map(|list| list.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let mut codings = tokens.filter(|token| !token.is_empty() && !token.eq_ignore_ascii_case(b"identity"));
    let Some(first) = codings.next() else { return Ok(None) };
    match (Coding::of(first), codings.next()) {
        (Some(coding), None) => Ok(Some(coding)),
        _ => Err(Refusal::unknown_coding()),
    }
}

impl Unpacker {
    /// The first `beginning_bytes_max` plain bytes are kept; all of them if `keeps`.
    pub(super) fn new(coding: Coding, limits: &config::Limits, beginning_bytes_max: usize, keeps: bool) -> Self {
        let (bytes_max, bodies_bytes_max) = (limits.decompressed_bytes_max as u64, limits.bodies_bytes_max);
        let plain = Unpacked { pieces: keeps.then(Pieces::default), ..Unpacked::default() };
        Self {
            decoder: Decoder::new(coding, bytes_max),
            coding,
            bytes_max,
            bodies_bytes_max,
            beginning_bytes_max,
            plain,
        }
    }

    /// What decompressing takes, bytes: a few bytes of a client's make it so much.
    pub(super) fn memory_bytes(&self) -> usize {
        self.coding.memory_bytes_max()
    }

    /// Takes a piece of the body; `read` gets what is in it.
    pub(super) async fn feed(
        &mut self,
        mut piece: &[u8],
        held: &mut Held,
        mut read: impl FnMut(&[u8]),
    ) -> Result<(), Refusal> {
        let mut bytes_in_turn = 0;
        loop {
            let plain = match self.decoder.next(&mut piece) {
                Ok([]) => return Ok(()),
                Ok(plain) => plain,
                Err(error) => return Err(Refusal::not_unpacked(error, self.bytes_max)),
            };
            read(plain);
            let missing = self.beginning_bytes_max - self.plain.beginning.len();
            self.plain.beginning.extend_from_slice(&plain[..plain.len().min(missing)]);
            self.plain.bytes += plain.len() as u64;
            if let Some(pieces) = &mut self.plain.pieces {
                if !held.take(plain.len(), self.bodies_bytes_max) {
                    return Err(Refusal::bodies_too_large());
                }
                pieces.push(Bytes::copy_from_slice(plain));
            }
            bytes_in_turn += plain.len();
            if bytes_in_turn >= TURN_BYTES {
                bytes_in_turn = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// The body is complete.
    pub(super) fn finish(self) -> Result<Unpacked, Refusal> {
        self.decoder.finish().map_err(|error| Refusal::not_unpacked(error, self.bytes_max))?;
        let pieces = self.plain.pieces.map(Pieces::complete);
        Ok(Unpacked { pieces, ..self.plain })
    }
}

impl Refusal {
    fn not_unpacked(error: CodingError, bytes_max: u64) -> Self {
        match error {
            CodingError::TooLarge => Self::unpacked_too_large(bytes_max),
            error => Self::bad_coding(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_coding_is_read_and_identity_is_none() {
        for (lists, expected) in [
            (&[][..], Ok(None)),
            (&["identity"], Ok(None)),
            (&["gzip"], Ok(Some(Coding::Gzip))),
            (&["ZSTD , identity"], Ok(Some(Coding::Zstd))),
            (&["identity", "br"], Ok(Some(Coding::Brotli))),
            (&["gzip, br"], Err(())),
            (&["gzip", "gzip"], Err(())),
            (&["compress"], Err(())),
        ] {
            let values = lists.iter().map(|list| (header::CONTENT_ENCODING, HeaderValue::from_static(list)));
            let headers: HeaderMap = values.collect();
            assert_eq!(coding_of(&headers).map_err(|_| ()), expected, "{lists:?}");
        }
    }
}
