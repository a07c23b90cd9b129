//! The byte-level alphabet: how a vocabulary file writes bytes as text.
//!
//! Printable Latin-1 characters stand for their own byte; the other 68 bytes are written as the
//! characters from U+0100 on, in order. So a space is written `Ġ` and a newline `Ċ`.

/// The character that stands for each byte.
pub(super) fn alphabet() -> [char; 256] {
    let mut chars = ['\0'; 256];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        chars[usize::from(byte)] = match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap_or('\0')
            }
        };
    }
    chars
}

/// The bytes that a token of the file stands for; `None` if it is not written in the alphabet.
pub(super) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    let chars = alphabet();
    // Codes of the alphabet end at U+0143: a table from code to byte.
    let mut bytes = [None; 0x144];
    for (byte, &char) in chars.iter().enumerate() {
        bytes[char as usize] = Some(byte as u8);
    }
    token.chars().map(|char| bytes.get(char as usize).copied().flatten()).collect()
}
