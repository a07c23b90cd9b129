//! Reads what an engine tells of itself: its metrics page, and its list of models.

use std::time::{Duration, Instant};

use kvroute_feeds::engine_metrics::{self, EngineMetrics};
use kvroute_feeds::model_list::{self, ModelList};

use super::Watch;

impl Watch {
    pub(super) async fn scrape_forever(self) {
        if !self.scrape.enabled {
            self.target.engine.set(None);
            return;
        }
        let mut known = EngineMetrics::default();
        loop {
            let page = self.get_if_wanted("/metrics").await;
            let read = page.map(|page| engine_metrics::parse(&String::from_utf8_lossy(&page)));
            self.target.engine.set(read.map(|metrics| (Instant::now(), metrics)));
            if let Some(now) = read {
                self.learn(&mut known, now);
            }
            tokio::time::sleep(Duration::from_millis(self.scrape.interval_ms)).await;
        }
    }

    /// Fits the cache view to what the engine says of itself. `known` is the last that it said of each thing.
    fn learn(&self, known: &mut EngineMetrics, now: EngineMetrics) {
        if let Some(tokens) = now.kv_tokens
            && known.kv_tokens.replace(tokens) != Some(tokens)
        {
            self.live.cache.resize(tokens);
        }
        if let Some(started) = now.process_start_seconds
            && known.process_start_seconds.replace(started).is_some_and(|before| before != started)
        {
            tracing::info!(url = %self.target.url, "engine restarted, its cache view starts empty");
            self.live.cache.clear();
        }
    }

    /// Keeps what the engine listed last while it cannot tell: one that is only late has not unloaded anything.
    pub(super) async fn list_forever(self) {
        let Some(discovery) = &self.discovery else {
            self.live.set_context_tokens_max(None);
            return;
        };
        loop {
            let list = self.get_if_wanted("/v1/models").await.and_then(|list| model_list::parse(&list));
            if let Some(ModelList { adapters, context_tokens_max }) = list {
                self.live.set_context_tokens_max(context_tokens_max);
                if discovery.lists(self.target.engine_id, &adapters) {
                    let replica = self.target.replica.to_str().unwrap_or_default();
                    tracing::info!(replica, url = %self.target.url, adapters = adapters.len(), "adapters changed");
                }
            }
            tokio::time::sleep(Duration::from_millis(self.scrape.interval_ms)).await;
        }
    }

    /// A page of the engine's, if it can be had, and the engine is not being worked on.
    async fn get_if_wanted(&self, path: &str) -> Option<Vec<u8>> {
        if self.is_worked_on() {
            return None;
        }
        self.get(path, self.scrape.timeout_ms).await.ok()
    }
}
