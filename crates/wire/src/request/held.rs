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
    /// Keeps of the piece what costs no more than `bytes_max` in all; `false` when that is not everything. What is kept
    /// does not depend on how text and media are cut into pieces.
    pub(super) fn push(&mut self, run: Run, piece: &[u8], bytes_max: usize) -> bool {
        let joins = matches!(run, Run::Text | Run::Media) && self.runs.last().is_some_and(|(last, _)| *last == run);
        let runs = self.runs.len() + usize::from(!joins);
        let Some(room) = bytes_max.checked_sub(self.bytes.len() + runs * RUN_COST_BYTES) else { return false };
        if run == Run::Segment && piece.len() > room {
            // A role is whole or not there.
            return false;
        }
        let kept = piece.len().min(room);
        self.bytes.extend_from_slice(&piece[..kept]);
        match self.runs.last_mut() {
            Some((_, bytes)) if joins => *bytes += kept,
            _ => self.runs.push((run, kept)),
        }
        kept == piece.len()
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
