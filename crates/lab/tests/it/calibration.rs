//! `calibrate` against the simulated engine, whose constants are known.

use std::sync::atomic::{AtomicU64, Ordering};

use kvroute_engine::model::Preset;
use kvroute_engine::server::{self, EngineConfig};
use kvroute_lab::calibrate::{Calibration, CalibrationError, fit, measure};
use kvroute_lab::load::Target;
use kvroute_lab::workload::BodyOptions;

async fn engine(preset: Preset) -> (server::Running, Target) {
    let config = EngineConfig { listen: "127.0.0.1:0".parse().unwrap(), preset, ..EngineConfig::default() };
    let engine = server::start(config).await.unwrap();
    let target = Target { base_url: format!("http://{}", engine.addr()), ..Target::default() };
    (engine, target)
}

/// A preset's constants as they are found with one that knows nothing of them.
async fn found(known: Preset, guess: Preset) -> Result<Calibration, CalibrationError> {
    static SEEDS: AtomicU64 = AtomicU64::new(1);
    let seed = SEEDS.fetch_add(1, Ordering::Relaxed);
    let (engine, target) = engine(known).await;
    let samples = measure(target, BodyOptions::default(), 4096, seed, &mut ()).await.unwrap();
    engine.shutdown().await;
    fit(&guess, &samples?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_constants_of_an_engine_are_found_within_a_few_percent() {
    let plain = Preset::default();
    for (overhead_ms, prefill_scale) in [(80.0, 1.0), (20.0, 0.7)] {
        let calibration = found(Preset { overhead_ms, prefill_scale, ..plain }, plain).await.unwrap();
        // HTTP and the machine that runs the test add to the overhead.
        let extra_ms = calibration.overhead_ms - overhead_ms;
        assert!((-2.0..15.0).contains(&extra_ms), "{calibration:?}");
        assert!((calibration.prefill_scale / prefill_scale - 1.0).abs() < 0.06, "{calibration:?}");
        assert!(calibration.error_mean_ratio < 0.06, "{calibration:?}");
    }
}

#[tokio::test]
async fn an_engine_that_has_seen_the_prompts_is_refused() {
    let (engine, target) = engine(Preset { prefill_scale: 0.05, overhead_ms: 0.0, ..Preset::default() }).await;
    let measured = async || measure(target.clone(), BodyOptions::default(), 1024, 7, &mut ()).await.unwrap();
    measured().await.unwrap();
    let refused = fit(&Preset::default(), &measured().await.unwrap()).unwrap_err();
    assert!(matches!(refused, CalibrationError::Cached { .. }), "{refused}");
    engine.shutdown().await;
}

#[tokio::test]
async fn an_engine_that_refuses_is_quoted() {
    let (engine, target) = engine(Preset { context_tokens_max: 600, ..Preset::default() }).await;
    let refused = measure(target, BodyOptions::default(), 2048, 7, &mut ()).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("status_400"), "{refused}");
    engine.shutdown().await;
}
