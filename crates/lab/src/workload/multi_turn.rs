//! Conversations that grow by their own answers.
//!
//! Every session starts with the same system text, then a first message of its own; each later turn
//! sends everything said so far, the engine's answers included, and one more message. So a turn's
//! prompt is the previous turn's prompt and answer plus a little, which only the replica that served
//! the previous turn holds.
//!
//! Sessions overlap: `live_sessions` are in progress at a time, and one that ends makes room for the
//! next. A session whose request fails ends there, since its next turn would lack an answer.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use super::{
    BYTES_PER_TOKEN, Next, Request, Workload,
    body::{BodyOptions, Role},
    text::{Purpose, TOKENS_MAX, TOKENS_MIN, text},
};
use crate::InvalidOption;

/// Most turns of a session.
const TURNS_MAX: u64 = 1_000;

/// Shape of a [`MultiTurn`] workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiTurnOptions {
    /// Number of conversations, at least 1.
    pub sessions: u32,
    /// Conversations in progress at a time, at least 1.
    pub live_sessions: u32,
    /// Requests of a conversation, 1..1000.
    pub turns: u32,
    /// Tokens of the system text that all conversations share: 0 for none, else 4..1,048,576 (as all
    /// lengths of texts here).
    pub system_tokens: u32,
    /// Tokens of a conversation's first message.
    pub first_tokens: u32,
    /// Tokens of each later message.
    pub turn_tokens: u32,
    /// Tokens of an answer, at least 1.
    pub output_tokens: u32,
    /// Milliseconds between an answer and the next message.
    pub think_ms: u64,
}

impl Default for MultiTurnOptions {
    fn default() -> Self {
        Self {
            sessions: 100,
            live_sessions: 25,
            turns: 6,
            system_tokens: 512,
            first_tokens: 256,
            turn_tokens: 64,
            output_tokens: 200,
            think_ms: 1_000,
        }
    }
}

/// The workload. See [`MultiTurnOptions`].
#[derive(Debug)]
pub struct MultiTurn {
    options: MultiTurnOptions,
    body: BodyOptions,
    seed: u64,
    system: String,
    started: u32,
    live: BTreeMap<u32, Session>,
    /// Sessions whose next message may be sent, earliest first.
    ready: BinaryHeap<Reverse<(Duration, u32)>>,
}

/// What has been said so far, after the system text: messages of the user and answers in turn.
#[derive(Debug, Default)]
struct Session {
    said: Vec<(Role, String)>,
    turns: u32,
}

impl MultiTurnOptions {
    fn check(&self) -> Result<(), InvalidOption> {
        let within = InvalidOption::unless_within;
        within("sessions", self.sessions.into(), 1..=u32::MAX.into())?;
        within("live_sessions", self.live_sessions.into(), 1..=u32::MAX.into())?;
        within("turns", self.turns.into(), 1..=TURNS_MAX)?;
        let tokens = TOKENS_MIN..=TOKENS_MAX;
        if self.system_tokens > 0 {
            within("system_tokens", self.system_tokens.into(), tokens.clone())?;
        }
        within("first_tokens", self.first_tokens.into(), tokens.clone())?;
        within("turn_tokens", self.turn_tokens.into(), tokens)?;
        within("output_tokens", self.output_tokens.into(), 1..=TOKENS_MAX)
    }
}

impl MultiTurn {
    /// A workload with no session started. Fails when an option is out of its range.
    pub fn new(options: MultiTurnOptions, body: BodyOptions, seed: u64) -> Result<Self, InvalidOption> {
        options.check()?;
        let system = match options.system_tokens {
            0 => String::new(),
            tokens => text(seed, Purpose::System, 0, tokens),
        };
        Ok(Self { options, body, seed, system, started: 0, live: BTreeMap::new(), ready: BinaryHeap::new() })
    }

    fn may_start(&self) -> bool {
        self.started < self.options.sessions && self.live.len() < self.options.live_sessions as usize
    }

    /// Adds the next message of a session and gives the request that sends it.
    fn turn(&mut self, number: u32, ready_at: Duration) -> Request {
        let session = self.live.entry(number).or_default();
        let tokens = match session.turns {
            0 => self.options.first_tokens,
            _ => self.options.turn_tokens,
        };
        let index = u64::from(session.turns) << 32 | u64::from(number);
        session.said.push((Role::User, text(self.seed, Purpose::Turn, index, tokens)));
        session.turns += 1;
        let keep_answer = session.turns < self.options.turns;
        let said = session.said.iter().map(|(role, text)| (*role, text.as_str()));
        let mut request = request_of(&self.system, said, &self.body, self.options.output_tokens);
        request.ticket = number.into();
        request.session = Some(number.into());
        request.ready_at = ready_at;
        request.keep_answer = keep_answer;
        request
    }
}

fn request_of<'a>(
    system: &'a str,
    said: impl Iterator<Item = (Role, &'a str)> + Clone,
    body: &BodyOptions,
    output_tokens: u32,
) -> Request {
    let opening = (!system.is_empty()).then_some((Role::System, system));
    let messages = opening.into_iter().chain(said);
    let bytes: usize = messages.clone().map(|(_, text)| text.len()).sum();
    Request {
        ticket: 0,
        body: body.build(messages, output_tokens),
        prompt_tokens: (bytes / BYTES_PER_TOKEN) as u32,
        ready_at: Duration::ZERO,
        session: None,
        keep_answer: false,
    }
}

impl Workload for MultiTurn {
    fn next(&mut self, now: Duration) -> Next {
        let earliest = self.ready.peek().map(|Reverse(entry)| *entry);
        match earliest {
            Some((ready_at, number)) if ready_at <= now => {
                self.ready.pop();
                Next::Request(self.turn(number, ready_at))
            }
            _ if self.may_start() => {
                let number = self.started;
                self.started += 1;
                Next::Request(self.turn(number, Duration::ZERO))
            }
            Some((ready_at, _)) => Next::NotBefore(ready_at),
            None if self.live.is_empty() => Next::Exhausted,
            None => Next::AwaitingAnswer,
        }
    }

    fn finished(&mut self, ticket: u64, answer: Option<&str>, now: Duration) {
        let Ok(number) = u32::try_from(ticket) else {
            return;
        };
        let Some(session) = self.live.get_mut(&number) else {
            return;
        };
        match answer {
            Some(answer) if session.turns < self.options.turns => {
                session.said.push((Role::Assistant, answer.to_owned()));
                let ready_at = now + Duration::from_millis(self.options.think_ms);
                self.ready.push(Reverse((ready_at, number)));
            }
            _ => {
                self.live.remove(&number);
            }
        }
    }

    fn warmup(&self, index: u64) -> Request {
        let tokens = self.options.system_tokens.max(self.options.first_tokens);
        let prompt = text(self.seed, Purpose::Warmup, index, tokens);
        let said = std::iter::once((Role::User, prompt.as_str()));
        let mut request = request_of("", said, &self.body, self.options.output_tokens);
        request.ticket = index;
        request
    }

    fn requests_total(&self) -> u64 {
        u64::from(self.options.sessions) * u64::from(self.options.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> MultiTurnOptions {
        MultiTurnOptions {
            sessions: 5,
            live_sessions: 2,
            turns: 3,
            system_tokens: 16,
            first_tokens: 8,
            turn_tokens: 4,
            output_tokens: 8,
            think_ms: 100,
        }
    }

    fn workload(options: MultiTurnOptions) -> MultiTurn {
        MultiTurn::new(options, BodyOptions::default(), 1).unwrap()
    }

    fn ready(next: Next) -> Request {
        match next {
            Next::Request(request) => request,
            other => panic!("no request but {other:?}"),
        }
    }

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn contents(request: &Request) -> Vec<String> {
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_turn_holds_all_earlier_turns_and_their_answers() {
        let mut workload = workload(small());
        let first = ready(workload.next(at(0)));
        workload.finished(first.ticket, Some("an \"answer\""), at(10));
        let _other_session = ready(workload.next(at(10)));
        assert_eq!(workload.next(at(10)), Next::NotBefore(at(110)));
        let second = ready(workload.next(at(150)));
        assert_eq!(second.session, first.session);
        assert_eq!(second.ready_at, at(110), "the answer plus the pause");
        let (before, after) = (contents(&first), contents(&second));
        assert_eq!(after[..2], before[..]);
        assert_eq!(after[2], "an \"answer\"");
        assert_eq!(after[3].len(), 16);
        assert_eq!(after.len(), 4);
    }

    #[test]
    fn sessions_share_the_system_text_and_differ_from_the_next_character() {
        let mut workload = workload(small());
        let (a, b) = (ready(workload.next(at(0))), ready(workload.next(at(0))));
        let (a, b) = (contents(&a), contents(&b));
        assert_eq!(a[0], b[0]);
        assert_ne!(a[1][..8], b[1][..8]);
    }

    #[test]
    fn no_more_sessions_are_live_than_asked_and_all_are_served() {
        let mut workload = workload(small());
        let mut in_flight: Vec<Request> = Vec::new();
        let (mut served, mut now) = (0, Duration::ZERO);
        loop {
            match workload.next(now) {
                Next::Request(request) => {
                    in_flight.push(request);
                    assert!(workload.live.len() <= 2);
                }
                Next::NotBefore(then) => now = then,
                Next::AwaitingAnswer => {
                    let request = in_flight.remove(0);
                    served += 1;
                    workload.finished(request.ticket, Some("yes"), now);
                }
                Next::Exhausted => break,
            }
            if in_flight.len() == 2 {
                let request = in_flight.remove(0);
                served += 1;
                workload.finished(request.ticket, Some("yes"), now);
            }
        }
        assert_eq!(served + in_flight.len(), 15);
        assert_eq!(workload.requests_total(), 15);
    }

    #[test]
    fn a_failed_turn_ends_its_session_only() {
        let mut workload = workload(MultiTurnOptions { sessions: 2, ..small() });
        let (a, b) = (ready(workload.next(at(0))), ready(workload.next(at(0))));
        assert_eq!(workload.next(at(0)), Next::AwaitingAnswer);
        workload.finished(a.ticket, None, at(5));
        workload.finished(b.ticket, Some("fine"), at(5));
        assert_eq!(ready(workload.next(at(200))).session, b.session);
        workload.finished(b.ticket, None, at(300));
        assert_eq!(workload.next(at(900)), Next::Exhausted);
    }

    #[test]
    fn texts_do_not_depend_on_the_order_of_answers() {
        let turn_two = |first_answered: usize| {
            let mut workload = workload(small());
            let pair = [ready(workload.next(at(0))), ready(workload.next(at(0)))];
            workload.finished(pair[first_answered].ticket, Some("x"), at(1));
            workload.finished(pair[1 - first_answered].ticket, Some("x"), at(2));
            let mut pair = [ready(workload.next(at(500))), ready(workload.next(at(500)))];
            pair.sort_by_key(|request| request.session);
            pair.map(|request| request.body)
        };
        assert_eq!(turn_two(0), turn_two(1));
        let mut hasher = crc32fast::Hasher::new();
        for body in turn_two(0) {
            hasher.update(&body);
        }
        assert_eq!(hasher.finalize(), DIGEST);
    }
    const DIGEST: u32 = 3_171_645_588;

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let with = |change: fn(&mut MultiTurnOptions)| {
            let mut options = small();
            change(&mut options);
            let refused = MultiTurn::new(options, BodyOptions::default(), 1);
            refused.unwrap_err().option
        };
        assert_eq!(with(|o| o.sessions = 0), "sessions");
        assert_eq!(with(|o| o.live_sessions = 0), "live_sessions");
        assert_eq!(with(|o| o.turns = 0), "turns");
        assert_eq!(with(|o| o.system_tokens = 2), "system_tokens");
        assert_eq!(with(|o| o.first_tokens = 0), "first_tokens");
        assert_eq!(with(|o| o.turn_tokens = 0), "turn_tokens");
        assert_eq!(with(|o| o.output_tokens = 0), "output_tokens");
    }
}
