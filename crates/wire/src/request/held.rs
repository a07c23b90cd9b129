//! What a message holds while its role is not known yet.

/// Memory that a run costs besides its bytes; counted, so that many tiny runs cannot outgrow the limit.
const RUN_COST_BYTES: usize = size_of::<Run>();

#[derive(Debug, Clone, Copy)]
struct Run {
    media: bool,
    bytes: usize,
}

/// Text and media in their order, bounded.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

impl Held {
    /// Keeps the piece; `false` when it would cost more than `bytes_max` in all.
    pub(super) fn push(&mut self, media: bool, piece: &[u8], bytes_max: usize) -> bool {
        let joins = self.runs.last().is_some_and(|run| run.media == media);
        let runs = self.runs.len() + usize::from(!joins);
        if self.bytes.len() + piece.len() + runs * RUN_COST_BYTES > bytes_max {
            return false;
        }
        self.bytes.extend_from_slice(piece);
        match self.runs.last_mut() {
            Some(run) if joins => run.bytes += piece.len(),
            _ => self.runs.push(Run { media, bytes: piece.len() }),
        }
        true
    }

    /// The runs in order: whether it is media, and its bytes.
    pub(super) fn runs(&self) -> impl Iterator<Item = (bool, &[u8])> {
        let mut rest = &self.bytes[..];
        self.runs.iter().map(move |run| {
            let (bytes, after) = rest.split_at(run.bytes);
            rest = after;
            (run.media, bytes)
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
    }
}
