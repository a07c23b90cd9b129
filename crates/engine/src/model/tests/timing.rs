//! How long things take.

use super::super::step::StepWork;
use super::*;

fn assert_near(what: &str, got_ms: f64, want_ms: f64, tolerance: f64) {
    let off = (got_ms / want_ms - 1.0).abs();
    assert!(off <= tolerance, "{what}: {got_ms:.3} ms, expected {want_ms} ms within {tolerance}");
}

#[test]
fn a_cold_prompt_of_8192_tokens_takes_what_the_profiles_say() {
    for preset in Preset::ALL {
        let mut engine = Checked::new(preset);
        let events = engine.run_alone(unshared(1, 8192, 1));
        let ttft_ms = first_token_at(events, 1).unwrap().as_ms();
        let tolerance = (preset.fit.prefill_error_max_percent + 0.1) / 100.0;
        assert!((0.01..0.16).contains(&tolerance), "{}: a fit of this kind is less or more off", preset.name);
        assert_near(preset.name, ttft_ms - preset.overhead_ms, preset.fit.cold_8k_ms, tolerance);
    }
}

#[test]
fn what_a_preset_says_of_itself_agrees() {
    let mut names = std::collections::BTreeSet::new();
    for preset in Preset::ALL {
        let name = preset.name;
        assert!(names.insert(name), "{name} is there twice");
        assert_eq!(Preset::by_name(name), Some(preset));
        assert!(name.starts_with(&preset.model.to_lowercase().replace(' ', "-")), "{name}: {}", preset.model);
        assert!(name.contains(&format!("-{}", preset.gpu.to_lowercase())), "{name}");
        assert_eq!(name.contains(&format!("-tp{}", preset.gpus)), preset.gpus > 1, "{name}");
        assert_eq!(name.ends_with("-fp8"), preset.weights == "fp8", "{name}");
        assert!(preset.source.starts_with("AIConfigurator"), "{name}");
        let fit = preset.fit;
        assert!(fit.prefill_error_mean_percent < fit.prefill_error_max_percent, "{name}");
        assert!(fit.decode_error_mean_percent < fit.decode_error_max_percent && fit.decode_error_max_percent < 17.0);
        assert!(preset.kv_tokens > preset.context_tokens_max.min(100_000), "{name} holds less than a prompt");
    }
    assert_eq!(Preset::default().name, Preset::ALL[0].name);
    assert_eq!(Preset::by_name("gpt"), None);
}

#[test]
fn experts_are_read_as_tokens_use_them() {
    let preset = Preset::by_name("qwen3-30b-a3b-h100").unwrap();
    let step_ms = |decodes: u64| {
        preset.step_ms(&StepWork { decodes, decode_context_tokens: 1024 * decodes, ..StepWork::default() })
    };
    // The profile's own figures at 1,024 tokens of context; a line through them would miss one by half.
    for (decodes, want_ms) in [(1, 4.68), (8, 10.49), (32, 20.78), (64, 24.18)] {
        assert_near("experts", step_ms(decodes), want_ms, 0.13);
    }
    // Prefill reads all of them anyway, so that decoding beside it pays for its own part only.
    let mixed = StepWork {
        decodes: 32,
        decode_context_tokens: 32 * 1024,
        chunks: 1,
        chunk_tokens: 1024,
        ..StepWork::default()
    };
    let alone = StepWork { chunks: 1, chunk_tokens: 1024, ..StepWork::default() };
    let beside_ms = preset.step_ms(&mixed) - preset.step_ms(&alone);
    assert!(beside_ms < step_ms(32) / 2.0, "{beside_ms}");
}

#[test]
fn a_later_chunk_pays_for_the_context_before_it() {
    let mut engine = Checked::new(Preset::default());
    let events = engine.run_alone(unshared(1, 16_384, 1));
    // Twice 6.28, 0.03843 a token, 4.98e-7 for each of the 16,384^2 / 2 pairs of tokens.
    assert_near("two chunks", first_token_at(events, 1).unwrap().as_ms() - 40.0, 709.04, 1e-4);
}

#[test]
fn what_a_preset_says_of_a_lone_prompt_is_what_the_engine_takes() {
    for preset in Preset::ALL {
        for tokens in [1, 2, 16, 255, 4096, 8192, 8193, 8194, 30_000] {
            let mut engine = Checked::new(Preset { overhead_ms: 3.0, ..preset });
            let events = engine.run_alone(unshared(1, tokens, 1));
            let ttft_ms = first_token_at(events, 1).unwrap().as_ms();
            // Steps are whole microseconds.
            let said_ms = preset.cold_prefill_ms(tokens) + 3.0;
            assert!((ttft_ms - said_ms).abs() < 0.003, "{} {tokens}: {ttft_ms} {said_ms}", preset.name);
        }
    }
}

#[test]
fn every_step_takes_time() {
    let mut preset = Preset { overhead_ms: 0.0, prefill_scale: 0.0, ..Preset::default() };
    preset.decode.base_ms = 0.0;
    preset.decode.per_seq_ms = 0.0;
    preset.decode.per_context_token_ms = 0.0;
    let mut engine = Checked::new(preset);
    let events = engine.run_alone(unshared(1, 10, 10));
    assert_eq!(events.last().unwrap().at(), Micros(10));
}

#[test]
fn a_cached_prompt_takes_about_one_decode_step() {
    let mut engine = Checked::new(Preset::default());
    engine.run_alone(unshared(1, 8192, 1));
    let start_ms = engine.now.as_ms();
    let events = engine.run_alone(Request { id: 2, ..unshared(1, 8192, 1) });
    let ttft_ms = first_token_at(events, 2).unwrap().as_ms() - start_ms;
    assert!((49.0..57.0).contains(&ttft_ms), "{ttft_ms} ms");
}

#[test]
fn a_decode_step_takes_what_the_formula_says() {
    // d0 + d1 B + d2 K, worked out by hand.
    let cases = [
        ("llama-3.1-70b-h100-tp8", 1, 1000, 9.913_54),
        ("llama-3.1-70b-h100-tp8", 64, 8000, 18.588_08),
        ("llama-3.1-70b-h100-tp4", 64, 2000, 20.898_4),
        ("llama-3.1-70b-h100-tp8-fp8", 128, 4000, 18.8916),
        ("llama-3.1-70b-h200-tp8", 256, 1000, 18.062_8),
        ("llama-3.1-70b-a100-tp8", 16, 16_000, 25.188_8),
        ("llama-3.1-8b-h100", 32, 4000, 12.122_0),
        // And 17.99 x 32 / (32 + 15).
        ("qwen3-30b-a3b-h100", 32, 2000, 19.5772),
    ];
    for (name, seqs, context, want_ms) in cases {
        let mut engine = Checked::new(Preset::by_name(name).unwrap());
        // With the prompt cached all of them start in one step and decode together in the next.
        engine.run_alone(unshared(0, context, 1));
        for id in 1..=seqs {
            engine.submit(Request { id, ..unshared(0, context, 2) });
        }
        let events = engine.run_until_idle();
        let first_ms = first_token_at(events, 1).unwrap().as_ms();
        let last_ms = events.last().unwrap().at().as_ms();
        assert_near(name, last_ms - first_ms, want_ms, 1e-4);
    }
}

#[test]
fn a_mixed_step_takes_what_the_profiles_say() {
    let n = 2048;
    let work = StepWork {
        decodes: 64,
        decode_context_tokens: 64 * 8192,
        chunks: 1,
        chunk_tokens: n,
        chunk_context_tokens: 0,
        chunk_token_pairs_doubled: n * n,
    };
    assert_near("fit", Preset::default().step_ms(&work), 98.3, 0.005);
    assert_near("profile", Preset::default().step_ms(&work), 96.0, 0.03);
}

#[test]
fn no_step_is_shorter_than_one_that_only_decodes() {
    for preset in Preset::ALL {
        for n in [1, 16, 64, 256, 8192] {
            for context in [0, 100, 100_000] {
                let chunk = StepWork {
                    chunks: 1,
                    chunk_tokens: n,
                    chunk_context_tokens: context,
                    chunk_token_pairs_doubled: n * (2 * context + n),
                    ..StepWork::default()
                };
                let decode = StepWork { decodes: 1, decode_context_tokens: context, ..StepWork::default() };
                assert!(preset.step_ms(&chunk) >= preset.step_ms(&decode), "{} {n}", preset.name);
            }
        }
    }
}

#[test]
fn every_token_of_a_lone_request_takes_one_step() {
    let mut engine = Checked::new(Preset::default());
    let events = engine.run_alone(unshared(1, 1000, 5)).to_vec();
    let at: Vec<f64> = events
        .iter()
        .filter(|event| matches!(event, Event::FirstToken { .. } | Event::Token { .. }))
        .map(|event| event.at().as_ms())
        .collect();
    assert_eq!(at.len(), 5);
    for pair in at.windows(2) {
        assert_near("token", pair[1] - pair[0], 9.9136, 1e-3);
    }
}

#[test]
fn decoding_waits_for_the_prefill_that_shares_its_step() {
    let mut engine = Checked::new(Preset::default());
    engine.submit(unshared(1, 1000, 100));
    engine.run_for_ms(200.0);
    engine.submit(unshared(2, 8192, 1));
    let events = engine.run_until_idle();
    let at: Vec<f64> = events
        .iter()
        .filter(|event| matches!(event, Event::Token { id: 1, .. }))
        .map(|event| event.at().as_ms())
        .collect();
    let longest_ms = at.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    // The budget leaves 8,191 of the 8,192 tokens; base 9.87 instead of 6.28.
    assert_near("mixed step", longest_ms, 341.4, 0.005);
}

#[test]
fn the_overhead_runs_beside_the_steps() {
    let mut engine = Checked::new(Preset { overhead_ms: 100.0, ..Preset::default() });
    engine.submit(unshared(1, 1000, 1));
    assert_eq!(engine.engine.next_event_at(), Some(Micros(100_000)));
    engine.run_for_ms(50.0);
    engine.submit(unshared(2, 1000, 1));
    let events = engine.run_until_idle();
    assert_eq!(first_token_at(events, 2).unwrap().0 / 1000, 150 + 44);
}

#[test]
fn prefill_scale_scales_prefill_alone() {
    let cases = [(1.0, 337.8), (0.5, 168.9), (2.0, 675.6)];
    for (prefill_scale, want_ms) in cases {
        let mut engine = Checked::new(Preset { prefill_scale, ..Preset::default() });
        let events = engine.run_alone(unshared(1, 8192, 2));
        let first = first_token_at(events, 1).unwrap().as_ms();
        assert_near("prefill", first - 40.0, want_ms, 1e-3);
        let last = events.last().unwrap().at().as_ms();
        assert_near("decode", last - first, 10.0088, 1e-3);
    }
}

#[test]
fn presets_without_sense_still_make_an_engine_that_finishes() {
    let broken = [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -1.0, 0.0];
    for value in broken {
        let mut preset = Preset {
            kv_tokens: 0,
            block_tokens: 0,
            step_tokens_max: 0,
            seqs_max: 0,
            overhead_ms: value,
            prefill_scale: value,
            ..Preset::default()
        };
        preset.decode.base_ms = value;
        let mut engine = Checked::new(preset);
        engine.submit(Request { block_hashes: chain(&[1]), ..unshared(1, 1, 9) });
        engine.submit(Request { block_hashes: chain(&[]), ..unshared(2, 0, 9) });
        let events = engine.run_until_idle();
        // One block of one token leaves no room for output.
        assert_eq!(finish_reason(events, 1), Some(FinishReason::Rejected), "{value}");
        assert_eq!(finish_reason(events, 2), Some(FinishReason::Rejected), "{value}");

        let mut engine = Checked::new(Preset { kv_tokens: 64, ..preset });
        engine.submit(Request { block_hashes: chain(&[1]), ..unshared(1, 1, 9) });
        let events = engine.run_until_idle();
        assert_eq!(finish_reason(events, 1), Some(FinishReason::Stop), "{value}");
    }
}

#[test]
fn the_page_of_presets_says_what_they_say() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/calibrate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected = Preset::ALL.map(|preset| {
        let Preset { name, model, gpu, gpus, weights, kv_tokens, fit, .. } = preset;
        format!(
            "| `{name}` | {model} | {gpus} {gpu} | {weights} | {kv_tokens} | {:.0} ms | {:.1} %, {:.1} % | {:.1} %, {:.1} % |",
            fit.cold_8k_ms,
            fit.prefill_error_mean_percent,
            fit.prefill_error_max_percent,
            fit.decode_error_mean_percent,
            fit.decode_error_max_percent,
        )
    });
    assert_eq!(rows, expected);
}
