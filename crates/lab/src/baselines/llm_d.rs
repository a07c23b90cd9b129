//! llm-d's two rules.
//!
//! **Weighted** (the default profile before August 2026): for every replica the weighted sum of three scores between 0
//! and 1, the highest wins. Queue, weight 2: requests that wait in the engine, the longest queue 0 and the shortest 1.
//! KV use, weight 2: one less the share of memory in use. Prefix, weight 3: the matched share of the prompt. Queue and
//! KV use come from the engines' metrics, which are read every 50 ms.
//!
//! **Sticky** (the default since): replicas that hold at least 80 % of the prompt are kept and the others left out, unless
//! there are none, or the best of them would take 18 s longer to its first token than the best of the others; then the
//! scores decide among those kept. The time is tokens under way over a peak prefill rate of 15,928 tokens/s.
//!
//! The predicted index holds as many blocks a replica as the replica itself, which llm-d reads from its metrics;
//! `view=events` is the precise index. Ties are drawn.

use kvroute_core::{decision::Reason, moment::Entropy, prompt::PrefixChain, strategy::Pick};
use kvroute_engine::model::Load;

use super::books::Books;
use super::index::{Index, View, chain_of};
use super::{Ask, Kv, Place, Rule, least, no_such, not_negative, positive};

/// How often metrics are read, microseconds.
const SCRAPE_US: u64 = 50_000;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Weight of the queue.
    pub queue_weight: f64,
    /// Weight of KV use.
    pub kv_weight: f64,
    /// Weight of the prefix.
    pub prefix_weight: f64,
    /// Share of the prompt that makes a replica sticky.
    pub affinity_threshold: f64,
    /// Milliseconds of TTFT that stickiness may cost.
    pub ttft_penalty_ms_max: f64,
    /// Tokens a second.
    pub peak_prefill_rate: f64,
    /// How it knows what is cached.
    pub view: View,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue_weight: 2.0,
            kv_weight: 2.0,
            prefix_weight: 3.0,
            affinity_threshold: 0.8,
            ttft_penalty_ms_max: 18_000.0,
            peak_prefill_rate: 15_928.0,
            view: View::Predicted,
        }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "queue_weight" => self.queue_weight = not_negative(value)?,
            "kv_weight" => self.kv_weight = not_negative(value)?,
            "prefix_weight" => self.prefix_weight = not_negative(value)?,
            "affinity_threshold" => self.affinity_threshold = not_negative(value)?,
            "ttft_penalty_ms_max" => self.ttft_penalty_ms_max = not_negative(value)?,
            "peak_prefill_rate" => self.peak_prefill_rate = positive(value)?,
            "view" => self.view = View::parse(value)?,
            _ => {
                let names = [
                    "queue_weight",
                    "kv_weight",
                    "prefix_weight",
                    "affinity_threshold",
                    "ttft_penalty_ms_max",
                    "peak_prefill_rate",
                    "view",
                ];
                return Err(no_such(&names));
            }
        }
        Ok(())
    }
}

/// What both rules know.
struct Knowledge {
    settings: Settings,
    kv: Kv,
    index: Index,
    books: Books,
    metrics: Vec<Option<(u64, Load)>>,
}

impl Knowledge {
    fn new(settings: &Settings, kv: Kv) -> Self {
        let index = Index::new(settings.view, (kv.tokens / kv.block_tokens) as usize);
        Self { settings: settings.clone(), kv, index, books: Books::default(), metrics: Vec::new() }
    }

    /// Reads the metrics that are older than the interval.
    fn scrape(&mut self, ask: &Ask<'_>) {
        for Place { number, .. } in ask.eligible() {
            if self.metrics.len() <= number {
                self.metrics.resize(number + 1, None);
            }
            let read = &mut self.metrics[number];
            if read.is_none_or(|(at_us, _)| ask.now_us >= at_us + SCRAPE_US) {
                *read = Some((ask.now_us, (ask.engine)(number)));
            }
        }
    }

    fn metrics(&self, place: &Place) -> Load {
        self.metrics[place.number].map(|(_, load)| load).unwrap_or_default()
    }

    fn matched_share(&self, place: &Place, ask: &Ask<'_>, chain: &PrefixChain) -> f64 {
        let tokens = self.index.matched(place.number, chain) * self.kv.block_tokens;
        f64::from(tokens) / f64::from(ask.input_tokens)
    }

    /// The highest weighted score among some.
    fn best(&self, among: &[Place], ask: &Ask<'_>, chain: &PrefixChain, entropy: &mut Entropy) -> Place {
        let queues = || among.iter().map(|place| self.metrics(place).waiting);
        let (longest, shortest) = (queues().max().unwrap_or(0), queues().min().unwrap_or(0));
        let score = |place: &Place| {
            let load = self.metrics(place);
            let queue = match longest - shortest {
                0 => 1.0,
                spread => f64::from(longest - load.waiting) / f64::from(spread),
            };
            self.settings.queue_weight * queue
                + self.settings.kv_weight * (1.0 - load.kv_used_ratio)
                + self.settings.prefix_weight * self.matched_share(place, ask, chain)
        };
        least(among.iter().copied(), entropy, |place| -score(place)).expect("a place is eligible")
    }

    /// Predicted milliseconds to the first token.
    fn ttft_ms(&self, place: &Place, ask: &Ask<'_>, chain: &PrefixChain) -> f64 {
        let uncached = f64::from(ask.input_tokens) * (1.0 - self.matched_share(place, ask, chain));
        (self.books.pending_tokens(place.number) as f64 + uncached) / self.settings.peak_prefill_rate * 1e3
    }

    fn place(&mut self, place: Place, ask: &Ask<'_>, chain: &PrefixChain) -> Pick {
        let matched = self.index.matched(place.number, chain);
        let uncached = ask.input_tokens.saturating_sub(matched * self.kv.block_tokens);
        self.books.placed(ask.request, place.number, uncached.into());
        self.index.sent(place.number, chain);
        Pick::new(place.index, if matched > 0 { Reason::PrefixHit } else { Reason::Load })
    }
}

/// The weighted scores alone.
pub(super) struct Weighted(Knowledge);

/// The filter, then the scores.
pub(super) struct Sticky(Knowledge);

impl Weighted {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        Self(Knowledge::new(settings, kv))
    }
}

impl Sticky {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        Self(Knowledge::new(settings, kv))
    }

    /// Those that the filter keeps.
    fn kept(&self, all: Vec<Place>, ask: &Ask<'_>, chain: &PrefixChain) -> Vec<Place> {
        let Knowledge { settings, .. } = &self.0;
        let is_sticky = |place: &Place| self.0.matched_share(place, ask, chain) >= settings.affinity_threshold;
        let (sticky, others): (Vec<Place>, Vec<Place>) = all.iter().partition(|place| is_sticky(place));
        let best = |some: &[Place]| {
            some.iter().map(|place| self.0.ttft_ms(place, ask, chain)).min_by(f64::total_cmp).unwrap_or(f64::INFINITY)
        };
        let is_worth_it = best(&sticky) <= best(&others) + settings.ttft_penalty_ms_max;
        if sticky.is_empty() || !is_worth_it { all } else { sticky }
    }
}

impl Rule for Weighted {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let chain = chain_of(ask);
        self.0.scrape(ask);
        let all: Vec<Place> = ask.eligible().collect();
        let place = self.0.best(&all, ask, &chain, entropy);
        self.0.place(place, ask, &chain)
    }

    fn books(&mut self) -> Option<&mut Books> {
        Some(&mut self.0.books)
    }

    fn index(&mut self) -> Option<&mut Index> {
        Some(&mut self.0.index)
    }
}

impl Rule for Sticky {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let chain = chain_of(ask);
        self.0.scrape(ask);
        let kept = self.kept(ask.eligible().collect(), ask, &chain);
        let place = self.0.best(&kept, ask, &chain, entropy);
        self.0.place(place, ask, &chain)
    }

    fn books(&mut self) -> Option<&mut Books> {
        Some(&mut self.0.books)
    }

    fn index(&mut self) -> Option<&mut Index> {
        Some(&mut self.0.index)
    }
}
