//! Text that is put together from short runs and what stands between them.

/// About this much is gathered before it is handed on, so that a visitor is not called once per escape.
const ENOUGH_BYTES: usize = 1024;

/// See the module. Its room is kept.
#[derive(Debug, Default)]
pub(super) struct Gathered(Vec<u8>);

impl Gathered {
    /// What there is.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is to be handed on before more comes.
    pub(super) fn is_enough(&self) -> bool {
        self.0.len() >= ENOUGH_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn extend(&mut self, run: &[u8]) {
        self.0.extend_from_slice(run);
    }
}
