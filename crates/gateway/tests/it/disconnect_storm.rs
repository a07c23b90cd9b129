//! Many clients that leave at any moment, replicas that break off and die: nothing is lost, doubled or left behind.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use kvroute_core::moment::Entropy;

use crate::support::{
    Arrived, Call, DONE, EVENT_STREAM, Gateway, Reply, Upstream, content, replicas, request, streamed_chat, within,
};

const REQUESTS: u64 = 300;
const WHOLE: &str = "{\"whole\":true}";
const SEED: u64 = 0x5eed;

/// What a replica does with a request; it follows from the request's number alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Whole,
    Stream,
    BreaksBeforeHead,
    BreaksInStream,
}

fn dice(number: u64, of: u64) -> Entropy {
    Entropy::new(SEED ^ (number << 8) ^ of)
}

fn pause(entropy: &mut Entropy) -> Duration {
    Duration::from_millis(entropy.below(15) as u64)
}

fn fate(number: u64) -> Fate {
    match dice(number, 0).below(8) {
        0..3 => Fate::Whole,
        3..6 => Fate::Stream,
        6 => Fate::BreaksBeforeHead,
        _ => Fate::BreaksInStream,
    }
}

fn reply(arrived: &Arrived) -> Reply {
    let number = number(arrived);
    let entropy = &mut dice(number, 1);
    let begun = Reply::default().pause(pause(entropy));
    let stream = |reply: Reply| reply.and(Reply::chunked(EVENT_STREAM)).chunk(content("one"));
    match fate(number) {
        Fate::Whole => begun.and(Reply::json(200, WHOLE)),
        Fate::Stream => stream(begun).pause(pause(entropy)).chunk(content("two")).chunk(DONE).end(),
        Fate::BreaksBeforeHead => begun.reset(),
        Fate::BreaksInStream => stream(begun).pause(pause(entropy)).reset(),
    }
}

fn number(arrived: &Arrived) -> u64 {
    arrived.header("x-request-id").unwrap().parse().unwrap()
}

/// How it went for a client that stayed.
#[derive(Debug, PartialEq)]
enum Ending {
    Answered,
    Refused,
    BrokenOff,
}

/// Sends request `number`; `None` if the client leaves before the end.
async fn client(gateway: &Gateway, number: u64) -> Option<Ending> {
    let entropy = &mut dice(number, 2);
    tokio::time::sleep(pause(entropy) * 4).await;
    let id = number.to_string();
    let sent = request(
        Method::POST,
        "/v1/chat/completions",
        &[("x-request-id", &id)],
        streamed_chat(&format!("prompt {}", number % 20)),
    );
    let call = Call::start(gateway.address(), sent).await;
    let leaves = entropy.below(3);
    if leaves == 0 {
        tokio::time::sleep(pause(entropy)).await;
        call.leave().await;
        return None;
    }
    let mut stream = call.streaming().await;
    if leaves == 1 && entropy.below(2) == 0 {
        let _ = stream.piece().await;
        stream.leave().await;
        return None;
    }
    let answer = stream.rest().await;
    Some(match (answer.status.as_u16(), answer.is_complete) {
        (200, true) => {
            let whole = if fate(number) == Fate::Whole { WHOLE } else { &*whole_stream() };
            assert_eq!(answer.text(), whole, "{number}");
            Ending::Answered
        }
        (200, false) => {
            assert_eq!(answer.header("content-type").unwrap(), EVENT_STREAM, "{number}: {answer:?}");
            assert!(answer.text().contains("stream_broken"), "{number}: {answer:?}");
            Ending::BrokenOff
        }
        _ => {
            assert!(answer.is_complete && !answer.openai_error().is_empty(), "{number}: {answer:?}");
            Ending::Refused
        }
    })
}

fn whole_stream() -> String {
    [content("one"), content("two"), DONE.to_owned()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_and_all_counters_return_to_zero() {
    let mut upstreams = Vec::new();
    for _ in 0..4 {
        upstreams.push(Upstream::start(reply).await);
    }
    let listed = replicas(&upstreams.iter().collect::<Vec<_>>());
    let gateway = Gateway::start(&format!("routing: {{concurrency_threshold: 8}}\n{listed}")).await;
    let gateway = std::sync::Arc::new(gateway);
    let clients: Vec<_> = (0..REQUESTS)
        .map(|number| {
            let gateway = gateway.clone();
            tokio::spawn(async move { client(&gateway, number).await })
        })
        .collect();
    // In the middle of it two replicas die, with all that is on them.
    for (i, requests) in [(0, 20), (1, 40)] {
        upstreams[i].has_got(requests).await;
        upstreams[i].kill();
    }
    let mut endings = Vec::new();
    for client in clients {
        endings.push(within(10, client).await.unwrap());
    }
    gateway.is_at_rest().await;

    let mut seen: HashMap<u64, usize> = HashMap::new();
    for arrived in upstreams.iter().flat_map(Upstream::requests) {
        *seen.entry(number(&arrived)).or_default() += 1;
    }
    let doubled: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "arrived more than once: {doubled:?}");
    for (number, ending) in (0..).zip(&endings) {
        let breaks = matches!(fate(number), Fate::BreaksBeforeHead | Fate::BreaksInStream);
        if *ending == Some(Ending::Answered) {
            assert!(seen.contains_key(&number) && !breaks, "{number}: {:?} and answered", fate(number));
        }
    }
    let stayed = endings.iter().flatten();
    let answered = stayed.clone().filter(|ending| **ending == Ending::Answered).count();
    assert!(answered > 50, "{answered} of {} were answered", stayed.count());

    let page = gateway.metrics().await;
    let routed = page.sum("kvroute_replica_routed_requests_total", &[]);
    let (ended, retried) = (page.sum("kvroute_requests_total", &[]), page.sum("kvroute_retries_total", &[]));
    assert_eq!(routed, ended + retried, "every place ended once");
    assert!(ended <= REQUESTS as f64);
}
