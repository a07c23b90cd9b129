//! One client of the storm. What it does follows from its number alone.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use kvroute_core::hash;
use kvroute_core::moment::Entropy;

use super::super::super::answer::Answer;
use super::super::super::http::{connect, request};

const PAUSE_MS_MAX: u32 = 100;
const PROMPTS: u32 = 40;
const TOKENS_MAX: u32 = 60;
/// Of so many clients, one leaves before the answer, and one in the middle of it.
const LEAVES_ONE_OF: u32 = 6;

/// How a request ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its number, which is its `x-request-id`.
    pub(super) number: u32,
    /// When it was sent.
    pub(super) begun: Instant,
    /// When it ended.
    pub(super) at: Instant,
    /// The replica that it was on, as far as was said.
    pub(super) replica: Option<String>,
    /// For whom.
    pub(super) ending: Ending,
}

/// For whom it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The answer came whole.
    Answered,
    /// The client left before.
    Left,
    /// The client was told that it failed: by a status, or by a connection that was cut.
    Failed,
    /// Nothing came for too long, or the answer looks whole and is not.
    Silent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Stays,
    LeavesAtOnce,
    LeavesInTheMiddle,
}

/// Sends request `number` and sees it to its end, or leaves.
pub(super) fn play(gateway: SocketAddr, number: u32) -> Ended {
    let mut entropy = Entropy::new(hash::finish(u64::from(number)));
    let mut pause = || Duration::from_millis(entropy.below(PAUSE_MS_MAX).into());
    thread::sleep(pause());
    let before_leaving = pause() / 4;
    let patience = match entropy.below(LEAVES_ONE_OF) {
        0 => Patience::LeavesAtOnce,
        1 => Patience::LeavesInTheMiddle,
        _ => Patience::Stays,
    };
    let is_stream = entropy.below(3) > 0;
    let prompt = format!("Prompt {}. ", entropy.below(PROMPTS)).repeat(200);
    let tokens = entropy.below(TOKENS_MAX) + 1;
    let body = format!(
        r#"{{"model": "m", "stream": {is_stream}, "max_tokens": {tokens}, "ignore_eos": true, "messages": [{{"role": "user", "content": "{prompt}"}}]}}"#
    );
    let more = format!("connection: close\r\nx-request-id: {number}\r\n");
    let sent = request(gateway, "POST", "/v1/chat/completions", &more, &body);

    let begun = Instant::now();
    let mut bytes = Vec::new();
    let read = converse(gateway, &sent, patience, before_leaving, &mut bytes);
    let answer = Answer::of(&bytes);
    let replica = answer.header("x-kvroute-replica").map(str::to_owned);
    Ended { number, begun, at: Instant::now(), replica, ending: ending(patience, &read, &answer, is_stream) }
}

/// Reads into `bytes` until the connection is closed or the client has had enough.
fn converse(
    gateway: SocketAddr,
    sent: &[u8],
    patience: Patience,
    before_leaving: Duration,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let mut connection: TcpStream = connect(gateway)?;
    connection.write_all(sent)?;
    let mut piece = [0; 4 << 10];
    if patience == Patience::LeavesInTheMiddle {
        let read = connection.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..read]);
    }
    if patience == Patience::Stays {
        connection.read_to_end(bytes)?;
    } else {
        thread::sleep(before_leaving);
    }
    Ok(())
}

fn ending(patience: Patience, read: &io::Result<()>, answer: &Answer, is_stream: bool) -> Ending {
    let timed_out = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let has_all = !is_stream || answer.body().contains("data: [DONE]");
    match read {
        _ if patience != Patience::Stays => Ending::Left,
        Err(error) if timed_out(error) => Ending::Silent,
        Err(_) => Ending::Failed,
        Ok(()) if !answer.is_ok() || !answer.is_complete() => Ending::Failed,
        Ok(()) if has_all => Ending::Answered,
        Ok(()) => Ending::Silent,
    }
}
