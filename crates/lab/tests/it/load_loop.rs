//! What a run does and what it writes down.
//!
//! Times here are real. Bounds are wide on the side where a busy machine pushes them.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kvroute_lab::{
    load::{self, Ending, FailureKind, LoadOptions, Outcome, Phase, Progress, Snapshot},
    workload::{BodyOptions, MultiTurn, MultiTurnOptions, Route, SharedPrefix, SharedPrefixOptions},
};

use crate::server::{End, Reply, Server};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The events of a chat answer of `tokens` tokens `t0 t1 ..` with their usage.
fn chat_events(tokens: usize) -> Vec<String> {
    let mut events: Vec<String> =
        (0..tokens).map(|n| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"t{n} \"}}}}]}}\n\n")).collect();
    events.push(format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":40,\"completion_tokens\":{tokens},\"prompt_tokens_details\":{{\"cached_tokens\":32}}}}}}\n\n"
    ));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// A whole answer: `first` until the first token, `gap` between the others.
fn streamed(tokens: usize, first: Duration, gap: Duration) -> Reply {
    let pause = |index| match index {
        0 => first,
        index if index < tokens => gap,
        _ => Duration::ZERO,
    };
    let events = chat_events(tokens).into_iter().enumerate();
    Reply {
        status: 200,
        headers: vec![
            ("content-type", "text/event-stream".to_owned()),
            ("x-kvroute-replica", "r1".to_owned()),
            ("x-kvroute-decision", "prefix_hit; matched=32".to_owned()),
        ],
        pieces: events.map(|(index, event)| (pause(index), Bytes::from(event))).collect(),
        end: End::Clean,
    }
}

fn raw(content_type: &str, text: &str, end: End) -> Reply {
    Reply {
        status: 200,
        headers: vec![("content-type", content_type.to_owned())],
        pieces: vec![(Duration::ZERO, Bytes::from(text.to_owned()))],
        end,
    }
}

fn prefixes(requests: u32) -> SharedPrefix {
    let options = SharedPrefixOptions {
        prefixes: requests,
        prefix_tokens: 32,
        suffix_tokens: 8,
        output_tokens: 4,
        uses_per_prefix: 1.0,
        ..SharedPrefixOptions::default()
    };
    SharedPrefix::new(options, BodyOptions::default(), 1).unwrap()
}

fn to(server: &Server) -> LoadOptions {
    let mut options = LoadOptions::default();
    options.target.base_url = format!("http://{}", server.address);
    options
}

async fn run(options: &LoadOptions, requests: u32) -> Outcome {
    let mut workload = prefixes(requests);
    load::run(options, &mut workload, &mut (), pending()).await.unwrap()
}

#[tokio::test]
async fn a_closed_loop_never_exceeds_its_users_and_keeps_their_connections() {
    let server = Server::start(|_, _| streamed(2, ms(5), ms(1))).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(4);
    let outcome = run(&options, 60).await;
    assert_eq!(outcome.served().count(), 60);
    assert_eq!(outcome.in_flight_peak, 4);
    assert_eq!(outcome.ending, Ending::Finished);
    assert!(server.seen.connections.load(SeqCst) <= 8, "connections are kept");
    // Overlap at the time of any request, from the records alone.
    let spans = outcome.records.iter().map(|r| (r.sent_us, r.sent_us + r.e2e_us));
    let spans: Vec<_> = spans.collect();
    for &(at, _) in &spans {
        let overlapping = spans.iter().filter(|(from, to)| (*from..*to).contains(&at));
        assert!(overlapping.count() <= 4);
    }
}

#[tokio::test]
async fn a_user_of_a_closed_loop_pauses_between_requests() {
    let server = Server::start(|_, _| streamed(1, ms(0), ms(0))).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(1);
    options.pacing.think = ms(40);
    let outcome = run(&options, 5).await;
    let mut sent: Vec<u64> = outcome.records.iter().map(|r| r.sent_us).collect();
    sent.sort_unstable();
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= 40_000), "{sent:?}");
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate_however_slow_the_answers() {
    let server = Server::start(|_, _| streamed(1, ms(600), ms(0))).await;
    let mut options = to(&server);
    options.pacing.request_rate = 200.0;
    options.pacing.burstiness = f64::INFINITY;
    let outcome = run(&options, 100).await;
    assert_eq!(outcome.served().count(), 100);
    // All 100 leave within half a second although none is answered before 600 ms.
    assert!(outcome.in_flight_peak >= 80, "{}", outcome.in_flight_peak);
    let mut scheduled: Vec<u64> = outcome.records.iter().map(|r| r.scheduled_us).collect();
    scheduled.sort_unstable();
    let expected: Vec<u64> = (1..=100).map(|n| n * 5_000).collect();
    assert_eq!(scheduled, expected);
    assert!(outcome.records.iter().all(|r| r.sent_us >= r.scheduled_us));
    assert!(outcome.records.iter().all(|r| r.queued_us == 0));
}

#[tokio::test]
async fn waiting_for_a_slot_is_reported_as_queue_time_and_as_lag() {
    let server = Server::start(|_, _| streamed(1, ms(100), ms(0))).await;
    let mut options = to(&server);
    options.pacing.request_rate = 1_000.0;
    options.pacing.max_concurrency = Some(1);
    let outcome = run(&options, 4).await;
    assert_eq!(outcome.in_flight_peak, 1);
    let last = outcome.records.last().unwrap();
    assert!(last.queued_us >= 250_000, "{last:?}");
    assert!(last.lag_us() >= last.queued_us, "{last:?}");
    assert!(last.ttft_us < last.lag_us(), "queueing is not in the latency: {last:?}");
}

#[tokio::test]
async fn times_tokens_and_headers_are_those_of_the_answer() {
    let server = Server::start(|_, _| streamed(4, ms(60), ms(30))).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(1);
    options.keep_gaps = true;
    options.target.headers = vec![("authorization".to_owned(), "Bearer x".to_owned())];
    let outcome = run(&options, 3).await;
    for record in &outcome.records {
        assert!((60_000..160_000).contains(&record.ttft_us), "{record:?}");
        assert!(record.e2e_us >= record.ttft_us + 80_000, "{record:?}");
        assert_eq!(record.gaps_us.len(), 3);
        assert_eq!((record.prompt_tokens, record.output_tokens), (40, 4));
        assert_eq!(record.cached_tokens, Some(32));
        assert_eq!(outcome.replicas.name(record.replica.unwrap()), "r1");
        assert_eq!(outcome.decisions.name(record.decision.unwrap()), "prefix_hit");
    }
    assert_eq!(outcome.gaps_us.len(), 9);
    let requests = server.seen.requests.lock().unwrap();
    let (path, headers, _) = &requests[0];
    assert_eq!(path, "/v1/chat/completions");
    assert_eq!(headers["authorization"], "Bearer x");
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn failures_are_counted_by_kind_and_end_nothing() {
    let server = Server::start(|number, _| match number % 9 {
        0 => Reply {
            status: 503,
            headers: vec![("x-kvroute-replica", "r9".to_owned())],
            pieces: vec![(ms(0), Bytes::from_static(b"{\"error\":\"no replica is ready\"}"))],
            end: End::Clean,
        },
        1 => raw("text/event-stream", &chat_events(2)[0], End::Broken),
        2 => raw("text/event-stream", &chat_events(2)[0], End::Clean),
        3 => raw("text/event-stream", "data: {\"error\":{\"message\":\"gone\"}}\n\n", End::Clean),
        4 => raw("application/json", "{}", End::Clean),
        5 => raw("text/event-stream", "data: [DONE]\n\n", End::Clean),
        6 => raw("text/event-stream", "data: {oops\n\n", End::Clean),
        7 => raw("text/event-stream", &chat_events(1)[0], End::Never),
        _ => streamed(1, ms(0), ms(0)),
    })
    .await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(3);
    options.request_timeout = ms(300);
    let outcome = run(&options, 18).await;
    let counts: BTreeMap<_, _> = outcome.failures.iter().map(|(k, n)| (*k, n.count)).collect();
    let expected = BTreeMap::from([
        (FailureKind::Status(503), 2),
        (FailureKind::Broken, 2),
        (FailureKind::Truncated, 2),
        (FailureKind::ErrorEvent, 2),
        (FailureKind::NotAStream, 2),
        (FailureKind::Empty, 2),
        (FailureKind::Malformed, 2),
        (FailureKind::Timeout, 2),
    ]);
    assert_eq!(counts, expected);
    assert_eq!(outcome.served().count(), 2);
    assert_eq!(outcome.failed(), 16);
    let refused = &outcome.failures[&FailureKind::Status(503)];
    assert_eq!(refused.example, "{\"error\":\"no replica is ready\"}");
    assert_eq!(outcome.gaps_us.len(), 0, "gaps of failed answers do not count");
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_every_request_and_no_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = LoadOptions::default();
    options.target.base_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    options.pacing.max_concurrency = Some(2);
    let outcome = run(&options, 10).await;
    assert_eq!(outcome.failures[&FailureKind::Connect].count, 10);
}

#[tokio::test]
async fn a_run_ends_at_its_deadline_and_counts_what_it_cut() {
    let server = Server::start(|_, _| raw("text/event-stream", &chat_events(1)[0], End::Never)).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(5);
    options.duration_max = Some(ms(200));
    let started = Instant::now();
    let outcome = run(&options, 50).await;
    assert!(started.elapsed() < ms(1_000), "{:?}", started.elapsed());
    assert_eq!(outcome.ending, Ending::TimeOver);
    assert_eq!((outcome.cut, outcome.failed()), (5, 0));
    assert!((ms(200)..ms(600)).contains(&outcome.duration));
}

#[tokio::test]
async fn requests_in_flight_at_the_deadline_get_the_time_to_drain() {
    let server = Server::start(|_, _| streamed(1, ms(300), ms(0))).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(2);
    options.duration_max = Some(ms(100));
    options.drain_max = ms(3_000);
    let outcome = run(&options, 50).await;
    assert_eq!(outcome.ending, Ending::TimeOver);
    assert_eq!((outcome.served().count(), outcome.cut), (2, 0));
    assert!(outcome.duration < ms(2_000), "no longer than needed");
}

#[tokio::test]
async fn a_drain_that_takes_too_long_is_cut_as_well() {
    let server = Server::start(|_, _| streamed(1, ms(5_000), ms(0))).await;
    let mut options = to(&server);
    options.duration_max = Some(ms(50));
    options.drain_max = ms(100);
    let outcome = run(&options, 3).await;
    assert_eq!(outcome.cut, 3);
    assert!((ms(150)..ms(1_000)).contains(&outcome.duration));
}

#[tokio::test]
async fn the_caller_can_stop_a_run_and_keeps_what_was_measured() {
    let server = Server::start(|number, _| match number {
        0..4 => streamed(1, ms(0), ms(0)),
        _ => raw("text/event-stream", &chat_events(1)[0], End::Never),
    })
    .await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(2);
    let mut workload = prefixes(100);
    let stop = tokio::time::sleep(ms(250));
    let outcome = load::run(&options, &mut workload, &mut (), stop).await.unwrap();
    assert_eq!(outcome.ending, Ending::Stopped);
    assert_eq!((outcome.served().count(), outcome.cut), (4, 2));
}

#[tokio::test]
async fn an_answer_in_aws_frames_is_read_through_cuts_within_lines() {
    let server = Server::start(|_, _| {
        let stream = chat_events(3).concat();
        let frames: Vec<u8> = stream.as_bytes().chunks(7).flat_map(payload_part).collect();
        Reply {
            status: 200,
            headers: vec![("content-type", "application/vnd.amazon.eventstream".to_owned())],
            pieces: frames.chunks(11).map(|piece| (ms(0), Bytes::copy_from_slice(piece))).collect(),
            end: End::Clean,
        }
    })
    .await;
    let mut options = to(&server);
    let route = Route::SageMaker { endpoint: "chat".to_owned() };
    options.target.path = route.path(BodyOptions::default().kind);
    let outcome = run(&options, 2).await;
    assert_eq!(outcome.failures, BTreeMap::new());
    assert!(outcome.records.iter().all(|r| r.output_tokens == 3));
    let requests = server.seen.requests.lock().unwrap();
    assert_eq!(requests[0].0, "/endpoints/chat/invocations-response-stream");
}

fn payload_part(payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [(":message-type", "event"), (":event-type", "PayloadPart")] {
        headers.push(name.len() as u8);
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let total = (16 + headers.len() + payload.len()) as u32;
    let mut frame = total.to_be_bytes().to_vec();
    frame.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

#[tokio::test]
async fn conversations_send_back_what_the_server_said() {
    let server = Server::start(|_, _| streamed(2, ms(1), ms(1))).await;
    let mut options = to(&server);
    options.pacing.max_concurrency = Some(3);
    options.target.session_header = Some("x-session-id".to_owned());
    let shape = MultiTurnOptions {
        sessions: 4,
        live_sessions: 3,
        turns: 3,
        system_tokens: 16,
        first_tokens: 8,
        turn_tokens: 4,
        output_tokens: 2,
        think_ms: 20,
    };
    let mut workload = MultiTurn::new(shape, BodyOptions::default(), 1).unwrap();
    let outcome = load::run(&options, &mut workload, &mut (), pending()).await.unwrap();
    assert_eq!(outcome.served().count(), 12);
    let bodies = server.bodies();
    let last_turns = bodies.iter().filter(|body| body["messages"].as_array().unwrap().len() == 6);
    assert_eq!(last_turns.clone().count(), 4);
    for body in last_turns {
        assert_eq!(body["messages"][2]["content"], "t0 t1 ");
        assert_eq!(body["messages"][4]["role"], "assistant");
    }
    let requests = server.seen.requests.lock().unwrap();
    let mut turns: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, headers, _) in requests.iter() {
        *turns.entry(headers["x-session-id"].to_str().unwrap()).or_default() += 1;
    }
    assert_eq!(turns.len(), 4);
    assert!(turns.values().all(|&n| n == 3), "{turns:?}");
}

#[derive(Default)]
struct Watch(Vec<Snapshot>);

impl Progress for Watch {
    fn update(&mut self, snapshot: &Snapshot) {
        self.0.push(*snapshot);
    }
}

#[tokio::test]
async fn warmups_come_first_and_are_not_measured() {
    let server = Server::start(|number, _| match number {
        0 => Reply { status: 500, ..Reply::default() },
        _ => streamed(1, ms(1), ms(0)),
    })
    .await;
    let mut options = to(&server);
    options.warmups = 3;
    options.pacing.max_concurrency = Some(1);
    let (mut workload, mut watch) = (prefixes(4), Watch::default());
    let outcome = load::run(&options, &mut workload, &mut watch, pending()).await.unwrap();
    assert_eq!((outcome.records.len(), outcome.warmups_failed), (4, 1));
    assert_eq!(outcome.failed(), 0);
    assert_eq!(server.bodies().len(), 7);
    let mut warmups = watch.0.iter().filter(|s| s.phase == Phase::Warmup);
    assert_eq!(warmups.next_back().unwrap().fraction(), 1.0);
    let last = watch.0.last().unwrap();
    assert_eq!((last.phase, last.served, last.in_flight), (Phase::Measure, 4, 0));
    assert_eq!(last.fraction(), 1.0);
}

#[tokio::test]
async fn requests_max_bounds_the_run() {
    let server = Server::start(|_, _| streamed(1, ms(0), ms(0))).await;
    let mut options = to(&server);
    options.requests_max = 7;
    let outcome = run(&options, 1_000).await;
    assert_eq!(outcome.records.len(), 7);
    assert_eq!(server.bodies().len(), 7);
}
