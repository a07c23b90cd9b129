//! The grammar of numbers, a byte at a time.

use super::Scalar;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

fn with_digit(value: u64, digit: u8) -> Option<u64> {
    value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
}

/// A number being read. Only unsigned integers are kept; nothing here needs any other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    part: Part,
    unsigned: Option<u64>,
}

impl Default for Number {
    fn default() -> Self {
        Self { part: Part::Start, unsigned: Some(0) }
    }
}

impl Number {
    /// Takes the byte if the number can go on with it.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let part = match (self.part, byte) {
            (Part::Start, b'-') => Part::Minus,
            (Part::Start | Part::Minus, b'0') => Part::Zero,
            (Part::Start | Part::Minus, b'1'..=b'9') | (Part::Integer, b'0'..=b'9') => Part::Integer,
            (Part::Zero | Part::Integer, b'.') => Part::Point,
            (Part::Point | Part::Fraction, b'0'..=b'9') => Part::Fraction,
            (Part::Zero | Part::Integer | Part::Fraction, b'e' | b'E') => Part::Exponent,
            (Part::Exponent, b'+' | b'-') => Part::ExponentSign,
            (Part::Exponent | Part::ExponentSign | Part::ExponentDigits, b'0'..=b'9') => Part::ExponentDigits,
            _ => return false,
        };
        self.unsigned = match part {
            Part::Zero | Part::Integer => self.unsigned.and_then(|value| with_digit(value, byte)),
            _ => None,
        };
        self.part = part;
        true
    }

    /// Takes the digits that `bytes` begins with if the number is an integer so far, which nearly all are that matter
    /// (token ids); returns how many.
    pub(super) fn take_digits(&mut self, bytes: &[u8]) -> usize {
        if self.part != Part::Integer {
            return 0;
        }
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        for byte in &bytes[..digits] {
            self.unsigned = self.unsigned.and_then(|value| with_digit(value, *byte));
        }
        digits
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self.part, Part::Zero | Part::Integer | Part::Fraction | Part::ExponentDigits)
    }

    pub(super) fn scalar(&self) -> Scalar {
        self.unsigned.map_or(Scalar::OtherNumber, Scalar::Unsigned)
    }
}
