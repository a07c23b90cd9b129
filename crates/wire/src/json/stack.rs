//! The containers that are open, one bit each.

use super::{DEPTH_MAX, ErrorKind};

/// Kinds of the open containers; bit 0 is the innermost, set for an object.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Stack {
    objects: u128,
    depth: u8,
}

impl Stack {
    pub(super) fn push(&mut self, object: bool) -> Result<(), ErrorKind> {
        if self.depth == DEPTH_MAX {
            return Err(ErrorKind::TooDeep);
        }
        self.objects = self.objects << 1 | u128::from(object);
        self.depth += 1;
        Ok(())
    }

    pub(super) fn pop(&mut self) {
        debug_assert!(self.depth > 0);
        self.objects >>= 1;
        self.depth -= 1;
    }

    pub(super) fn top_is_object(&self) -> bool {
        self.objects & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    pub(super) fn depth(&self) -> u8 {
        self.depth
    }
}
