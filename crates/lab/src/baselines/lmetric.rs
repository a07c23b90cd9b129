//! LMetric: new prefill tokens there times the batch there, the smallest product wins. No weights.
//!
//! Two readings of the first factor. `form=queued` counts the uncached tokens of this request and of all that wait for
//! their first token there; `form=count` those of this request alone. The second factor is requests in flight, this one
//! included. Ties (both factors can be next to nothing) are drawn.

use kvroute_core::{decision::Reason, moment::Entropy, strategy::Pick};

use super::books::Books;
use super::index::{Index, View, chain_of};
use super::{Ask, Kv, Rule, least, no_such};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Whether tokens of other requests count.
    pub counts_queued: bool,
    /// How it knows what is cached.
    pub view: View,
}

impl Default for Settings {
    fn default() -> Self {
        Self { counts_queued: true, view: View::Predicted }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, value) {
            ("form", "queued") => self.counts_queued = true,
            ("form", "count") => self.counts_queued = false,
            ("form", _) => return Err("neither queued nor count".to_owned()),
            ("view", _) => self.view = View::parse(value)?,
            _ => return Err(no_such(&["form (queued, count)", "view (predicted, events)"])),
        }
        Ok(())
    }
}

pub(super) struct LMetric {
    settings: Settings,
    kv: Kv,
    index: Index,
    books: Books,
}

impl LMetric {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        let index = Index::new(settings.view, (kv.tokens / kv.block_tokens) as usize);
        Self { settings: settings.clone(), kv, index, books: Books::default() }
    }
}

impl Rule for LMetric {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let chain = chain_of(ask);
        let uncached = |matched: u32| u64::from(ask.input_tokens.saturating_sub(matched * self.kv.block_tokens));
        let score = |place: &super::Place| {
            let queued = if self.settings.counts_queued { self.books.pending_tokens(place.number) } else { 0 };
            (queued + uncached(self.index.matched(place.number, &chain))) * u64::from(place.in_flight + 1)
        };
        let place = least(ask.eligible(), entropy, score).expect("a place is eligible");
        let matched = self.index.matched(place.number, &chain);
        self.books.placed(ask.request, place.number, uncached(matched));
        self.index.sent(place.number, &chain);
        Pick::new(place.index, if matched > 0 { Reason::PrefixHit } else { Reason::Load })
    }

    fn books(&mut self) -> Option<&mut Books> {
        Some(&mut self.books)
    }

    fn index(&mut self) -> Option<&mut Index> {
        Some(&mut self.index)
    }
}
