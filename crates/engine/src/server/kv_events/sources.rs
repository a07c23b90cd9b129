//! `/kv_event_sources`: where a router finds the events.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::config::KvEventsConfig;

/// By data parallel rank, of which there is one.
pub(in super::super) type KvEventSources = BTreeMap<u32, KvEventSource>;

/// Where a rank publishes.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct KvEventSource {
    enable_kv_cache_events: bool,
    publisher: &'static str,
    endpoint: String,
    replay_endpoint: Option<String>,
    buffer_steps: usize,
    hwm: u32,
    max_queue_size: u32,
    topic: String,
}

impl KvEventSource {
    pub(in super::super) fn new(config: &KvEventsConfig, endpoint: &str, replay: Option<&str>) -> Self {
        Self {
            enable_kv_cache_events: true,
            publisher: "zmq",
            endpoint: endpoint.to_owned(),
            replay_endpoint: replay.map(str::to_owned),
            buffer_steps: config.buffer_steps,
            hwm: 100_000,
            max_queue_size: 100_000,
            topic: config.topic.clone(),
        }
    }
}
