//! Text that cannot go to the sink yet: that of a message whose role is not known, or of a conversation whose system
//! text is not.

/// Memory that a run costs besides its bytes; counted, so that many tiny runs cannot outgrow the limit.
const RUN_COST_BYTES: usize = size_of::<(Run, usize)>();

/// What some held bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// A segment begins; the bytes are its role.
    Segment,
    Text,
    Media,
    /// The segment ends; there are no bytes.
    End,
}

/// What is held, in its order, bounded.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    runs: Vec<(Run, usize)>,
}

impl Held {
    /// Keeps the piece; `false` when it would cost more than `bytes_max` in all.
    pub(super) fn push(&mut self, run: Run, piece: &[u8], bytes_max: usize) -> bool {
        let joins = matches!(run, Run::Text | Run::Media) && self.runs.last().is_some_and(|(last, _)| *last == run);
        let runs = self.runs.len() + usize::from(!joins);
        if self.bytes.len() + piece.len() + runs * RUN_COST_BYTES > bytes_max {
            return false;
        }
        self.bytes.extend_from_slice(piece);
        match self.runs.last_mut() {
            Some((_, bytes)) if joins => *bytes += piece.len(),
            _ => self.runs.push((run, piece.len())),
        }
        true
    }

    /// Keeps the end of a segment whatever it costs, since a segment that was begun must end.
    pub(super) fn push_end(&mut self) {
        self.runs.push((Run::End, 0));
    }

    /// The runs in order, with their bytes.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Run, &[u8])> {
        let mut rest = &self.bytes[..];
        self.runs.iter().map(move |&(run, bytes)| {
            let (bytes, after) = rest.split_at(bytes);
            rest = after;
            (run, bytes)
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
    }
}
