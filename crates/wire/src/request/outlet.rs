//! The sink, and before it the conversation that waits for its system text.
//!
//! Two APIs give the system text as a member of its own beside the conversation (`instructions`, `system`), and their
//! SDKs write it after. Engines put it first, so the conversation waits until it has come or the body has ended. What
//! may wait is bounded; beyond the bound the rest of the conversation is passed over as if the sink were full, which
//! leaves a true beginning of the prompt.

use super::PromptSink;
use super::held::{Held, Run};

/// Which way the calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToSink,
    /// Kept until the system text has come.
    Waits {
        cut: bool,
    },
    /// The system text goes to the sink, the rest waits.
    System {
        cut: bool,
    },
    /// Something was left out of what has gone to the sink, so nothing may follow.
    Cut,
}

#[derive(Debug)]
pub(super) struct Outlet<S> {
    sink: S,
    way: Way,
    waiting: Held,
    waiting_bytes_max: usize,
}

impl<S: PromptSink> Outlet<S> {
    pub(super) fn new(sink: S, waits: bool, waiting_bytes_max: usize) -> Self {
        let way = if waits { Way::Waits { cut: false } } else { Way::ToSink };
        Self { sink, way, waiting: Held::default(), waiting_bytes_max }
    }

    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    /// The sink, once it has got what waited. After a system text that was cut short nothing may follow.
    pub(super) fn into_sink(mut self) -> S {
        if matches!(self.way, Way::Waits { .. }) {
            self.release();
        }
        self.sink
    }

    /// No more is needed of what comes now.
    pub(super) fn is_full(&self) -> bool {
        match self.way {
            Way::ToSink | Way::System { .. } => self.sink.is_full(),
            Way::Waits { cut } => cut,
            Way::Cut => true,
        }
    }

    pub(super) fn is_in_system(&self) -> bool {
        matches!(self.way, Way::System { .. })
    }

    /// The system text comes now.
    pub(super) fn system_begins(&mut self) {
        if let Way::Waits { cut } = self.way {
            self.way = Way::System { cut };
        }
    }

    /// The system text is over: what waited can go, and what comes need not wait. Nothing may follow one that has
    /// `ended` before its end.
    pub(super) fn system_done(&mut self, ended: bool) {
        if let Way::System { cut } = self.way {
            self.way = if cut || ended { Way::Cut } else { Way::ToSink };
            if ended { self.waiting = Held::default() } else { self.release() }
        }
    }

    pub(super) fn segment(&mut self, role: &[u8]) {
        if self.is_waiting() { self.wait(Run::Segment, role) } else { self.sink.segment(role) }
    }

    pub(super) fn text(&mut self, bytes: &[u8]) {
        if self.is_waiting() { self.wait(Run::Text, bytes) } else { self.sink.text(bytes) }
    }

    pub(super) fn media(&mut self, bytes: &[u8]) {
        if self.is_waiting() { self.wait(Run::Media, bytes) } else { self.sink.media(bytes) }
    }

    /// Token ids never wait: only prompts hold them, and no API has a system text beside a prompt.
    pub(super) fn token_ids(&mut self, ids: &[u32]) {
        self.sink.token_ids(ids);
    }

    pub(super) fn end_segment(&mut self) {
        if self.is_waiting() { self.waiting.push_end() } else { self.sink.end_segment() }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.way, Way::Waits { .. })
    }

    fn wait(&mut self, run: Run, bytes: &[u8]) {
        if !self.waiting.push(run, bytes, self.waiting_bytes_max) {
            self.way = Way::Waits { cut: true };
        }
    }

    fn release(&mut self) {
        let mut open = false;
        for (run, bytes) in self.waiting.runs() {
            match run {
                Run::End if std::mem::take(&mut open) => self.sink.end_segment(),
                _ if self.sink.is_full() => {}
                Run::Segment => {
                    open = true;
                    self.sink.segment(bytes);
                }
                Run::Text => self.sink.text(bytes),
                Run::Media => self.sink.media(bytes),
                Run::End => {}
            }
        }
        self.waiting = Held::default();
    }
}
