mod client;
mod embeddings;
mod events;
mod faults;
mod http;
mod ledger;
mod lifecycle;
mod lora;
mod messages;
mod responses;

use super::{EngineConfig, Running, start};

/// A fast engine on a free port.
fn config() -> EngineConfig {
    EngineConfig { listen: ([127, 0, 0, 1], 0).into(), model: "m".to_owned(), speed: 200.0, ..EngineConfig::default() }
}

async fn engine() -> Running {
    start(config()).await.unwrap()
}

async fn engine_with_faults() -> Running {
    start(EngineConfig { allow_injection: true, ..config() }).await.unwrap()
}

/// Waits for something that must come true.
async fn until<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    for _ in 0..2000 {
        if check().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("never came true: {what}");
}
