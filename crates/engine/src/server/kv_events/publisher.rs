//! The sockets: PUB for what happens, ROUTER for what happened.
//!
//! The engine must never wait for a subscriber. It numbers a batch, keeps it for replay and puts it
//! into a bounded queue; a task moves the queue to the PUB socket, which itself drops for subscribers
//! that are slow. A second task answers replays, so that a client that asks and does not read holds
//! up nobody but other replays, and those for a limited time.
//!
//! Replay: a DEALER sends `["", seq]` and gets `["", topic, seq, payload]` for every kept batch from
//! `seq` on, then `["", "", -1, ""]`. A request of another shape gets no answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeromq::{
    PubSocket, RouterRecvHalf, RouterSendHalf, RouterSocket, Socket, SocketRecv, SocketSend, ZmqError, ZmqMessage,
};

use super::super::config::{KvEventsConfig, StartError};

/// Batches between the engine and the PUB socket. Full only when the machine is; what does not fit is
/// not published, and its number is missing.
const QUEUED_MAX: usize = 4096;

/// For one message of a replay to leave; a client that takes longer is left alone.
const REPLAY_SEND_MS_MAX: u64 = 1000;

/// A pause after the socket failed, so that a lasting failure is not a busy loop.
const REPLAY_PAUSE_MS: u64 = 100;

/// `seq` of the message that ends a replay: -1.
const END_OF_REPLAY: [u8; 8] = [0xFF; 8];

/// See the module. The tasks end with it.
pub(super) struct Publisher {
    topic: Bytes,
    next_seq: u64,
    queue: mpsc::Sender<ZmqMessage>,
    kept: Arc<Mutex<Kept>>,
    endpoint: String,
    replay_endpoint: Option<String>,
    tasks: Vec<JoinHandle<()>>,
}

/// The last batches.
struct Kept {
    batches: VecDeque<(u64, Bytes)>,
    bytes: usize,
    batches_max: usize,
    bytes_max: usize,
}

impl Publisher {
    pub(super) async fn start(config: &KvEventsConfig) -> Result<Self, StartError> {
        let mut publish = PubSocket::new();
        let endpoint = bind(&mut publish, &config.publish).await?;
        let topic = Bytes::copy_from_slice(config.topic.as_bytes());
        let kept = Arc::new(Mutex::new(Kept {
            batches: VecDeque::new(),
            bytes: 0,
            batches_max: config.buffer_steps,
            bytes_max: config.buffer_bytes_max,
        }));
        let (queue, queued) = mpsc::channel(QUEUED_MAX);
        let mut tasks = vec![tokio::spawn(publish_all(publish, queued))];
        let mut replay_endpoint = None;
        if let Some(wanted) = &config.replay {
            let mut router = RouterSocket::new();
            replay_endpoint = Some(bind(&mut router, wanted).await?);
            let (send, receive) = router.split();
            tasks.push(tokio::spawn(replay_all(receive, send, topic.clone(), Arc::clone(&kept))));
        }
        Ok(Self { topic, next_seq: 0, queue, kept, endpoint, replay_endpoint, tasks })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn replay_endpoint(&self) -> Option<&str> {
        self.replay_endpoint.as_deref()
    }

    /// Numbers a batch and sends it on its way.
    pub(super) fn publish(&mut self, payload: Vec<u8>) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let payload = Bytes::from(payload);
        if self.replay_endpoint.is_some() {
            self.kept.lock().push(seq, payload.clone());
        }
        let seq = Bytes::copy_from_slice(&seq.to_be_bytes());
        if self.queue.try_send(message(self.topic.clone(), [seq, payload])).is_err() {
            tracing::warn!("kv event queue is full, a batch is lost");
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Kept {
    fn push(&mut self, seq: u64, payload: Bytes) {
        self.bytes += payload.len();
        self.batches.push_back((seq, payload));
        while self.batches.len() > self.batches_max || self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.batches.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }

    /// The batches from a number on.
    fn since(&self, start: u64) -> Vec<(u64, Bytes)> {
        let first = self.batches.partition_point(|&(seq, _)| seq < start);
        self.batches.range(first..).cloned().collect()
    }
}

/// Binds and returns the endpoint with its real port. `*` is every interface, as in ZeroMQ.
async fn bind(socket: &mut impl Socket, wanted: &str) -> Result<String, StartError> {
    let bound = socket.bind(&wanted.replace("//*:", "//0.0.0.0:")).await;
    let bound = bound.map_err(|source| StartError::KvEndpoint { endpoint: wanted.to_owned(), source })?.to_string();
    Ok(match wanted.starts_with("tcp://*:") {
        true => bound.replace("//0.0.0.0:", "//*:"),
        false => bound,
    })
}

/// A message of several frames.
fn message(first: Bytes, rest: impl IntoIterator<Item = Bytes>) -> ZmqMessage {
    let mut message = ZmqMessage::from(first);
    for frame in rest {
        message.push_back(frame);
    }
    message
}

async fn publish_all(mut socket: PubSocket, mut queued: mpsc::Receiver<ZmqMessage>) {
    while let Some(message) = queued.recv().await {
        if let Err(error) = socket.send(message).await {
            tracing::debug!(%error, "kv event batch was not sent");
        }
    }
}

async fn replay_all(mut receive: RouterRecvHalf, mut send: RouterSendHalf, topic: Bytes, kept: Arc<Mutex<Kept>>) {
    loop {
        let request = match receive.recv().await {
            Ok(request) => request.into_vec(),
            Err(error) => {
                tracing::debug!(%error, "replay socket failed");
                tokio::time::sleep(Duration::from_millis(REPLAY_PAUSE_MS)).await;
                continue;
            }
        };
        let [peer, empty, start] = &request[..] else { continue };
        let Ok(start) = <[u8; 8]>::try_from(&start[..]) else { continue };
        if !empty.is_empty() {
            continue;
        }
        let batches = kept.lock().since(u64::from_be_bytes(start));
        if let Err(error) = replay(&mut send, peer, &topic, batches).await {
            tracing::debug!(%error, "replay was broken off");
        }
    }
}

async fn replay(
    send: &mut RouterSendHalf,
    peer: &Bytes,
    topic: &Bytes,
    batches: Vec<(u64, Bytes)>,
) -> Result<(), ZmqError> {
    let batches =
        batches.into_iter().map(|(seq, payload)| (topic.clone(), Bytes::copy_from_slice(&seq.to_be_bytes()), payload));
    let end = (Bytes::new(), Bytes::from_static(&END_OF_REPLAY), Bytes::new());
    for (topic, seq, payload) in batches.chain([end]) {
        let sent = send.send(message(peer.clone(), [Bytes::new(), topic, seq, payload]));
        match tokio::time::timeout(Duration::from_millis(REPLAY_SEND_MS_MAX), sent).await {
            Ok(result) => result?,
            Err(_) => return Err(ZmqError::Other("client does not read")),
        }
    }
    Ok(())
}
