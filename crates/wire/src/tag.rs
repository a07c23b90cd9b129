//! A short name that is compared with known ones, such as the `type` of a part or an event.

/// Longer than any name it is compared with.
const TAG_BYTES_MAX: usize = 32;

/// A name as read so far.
#[derive(Debug, Default)]
pub(crate) struct Tag {
    bytes: [u8; TAG_BYTES_MAX],
    len: usize,
    too_long: bool,
}

impl Tag {
    pub(crate) fn clear(&mut self) {
        (self.len, self.too_long) = (0, false);
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + piece.len()) {
            Some(room) if !self.too_long => {
                room.copy_from_slice(piece);
                self.len += piece.len();
            }
            _ => self.too_long = true,
        }
    }

    /// The name; empty where it is longer than any that is known.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.too_long { &[] } else { &self.bytes[..self.len] }
    }
}
