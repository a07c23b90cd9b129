//! What heads of both directions are made of: names, values, numbers.

use std::ops::Range;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::Malformed;

/// Where the names and values of headers lie in the head.
pub(super) type Places = SmallVec<[(Range<usize>, Range<usize>); 24]>;

const SPECIAL: usize = 5;
/// Headers that say something of the message itself.
static OF_THE_MESSAGE: [HeaderName; SPECIAL] =
    [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING, header::EXPECT];

/// Which of these a head has: looking for what is nearly never there would cost more than to see it pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Special([bool; SPECIAL]);

impl Special {
    /// Whether there is one of this name, which must be one of these.
    pub(super) fn has(self, name: &HeaderName) -> bool {
        may_be(name.as_str().as_bytes()).is_some_and(|at| self.0[at])
    }
}

/// Which of the special headers a name may be: no two are of one length.
fn may_be(name: &[u8]) -> Option<usize> {
    match name.len() {
        4 => Some(0),
        14 => Some(1),
        10 => Some(2),
        17 => Some(3),
        6 => Some(4),
        _ => None,
    }
}

/// Where parsed headers lie in the bytes that they were parsed from.
pub(super) fn places(read: &[u8], headers: &[httparse::Header<'_>], places: &mut Places) {
    places.clear();
    places.extend(headers.iter().map(|header| (place(read, header.name.as_bytes()), place(read, header.value))));
}

/// Where `part`, which is a part of `read`, lies in it. Only so do values outlive that the head is split off.
pub(super) fn place(read: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - read.as_ptr() as usize;
    start..start + part.len()
}

/// Puts the headers of a head that was split off into an empty map; its values are parts of `head`. `None` where a name
/// or value is none.
pub(super) fn read(head: &Bytes, places: &Places, headers: &mut HeaderMap) -> Option<Special> {
    headers.reserve(places.len() + 4);
    let mut special = Special::default();
    for (name, value) in places {
        let written = &head[name.clone()];
        let name = HeaderName::from_bytes(written).ok()?;
        if let Some(at) = may_be(written)
            && OF_THE_MESSAGE[at] == name
        {
            special.0[at] = true;
        }
        headers.append(name, HeaderValue::from_maybe_shared(head.slice(value.clone())).ok()?);
    }
    Some(special)
}

/// The parts of all headers of one name that are lists.
pub(super) fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii)
}

/// Whether `connection` has this word.
pub(super) fn connection_says(headers: &HeaderMap, word: &[u8]) -> bool {
    words(headers, &header::CONNECTION).any(|said| said.eq_ignore_ascii_case(word))
}

/// The length of the body, if it is said; several times is once, if all agree.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).into_iter().map(decimal);
    let Some(first) = lengths.next() else { return Ok(None) };
    if lengths.any(|other| other != first) {
        return Err(Malformed("there are two lengths"));
    }
    first.map(Some).ok_or(Malformed("the length is no number"))
}

fn decimal(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Writes a number with digits from 0.
pub(super) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let at = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[at..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_headers_are_told_from_all_others() {
        for (at, name) in OF_THE_MESSAGE.iter().enumerate() {
            assert_eq!(may_be(name.as_str().as_bytes()), Some(at), "{name}");
        }
        let head = Bytes::from("Expect:1,cookie:2,date:3");
        let places: Places = [(0..6, 7..8), (9..15, 16..17), (18..22, 23..24)].into_iter().collect();
        let special = read(&head, &places, &mut HeaderMap::new()).unwrap();
        let has: Vec<_> = OF_THE_MESSAGE.iter().filter(|name| special.has(name)).collect();
        assert_eq!(has, [&header::EXPECT]);
    }
}
