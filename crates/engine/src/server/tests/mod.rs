mod client;
mod events;
mod http;
mod lifecycle;

use super::{EngineConfig, Running, start};

/// A fast engine on a free port.
fn config() -> EngineConfig {
    EngineConfig { listen: ([127, 0, 0, 1], 0).into(), model: "m".to_owned(), speed: 200.0, ..EngineConfig::default() }
}

async fn engine() -> Running {
    start(config()).await.unwrap()
}
