use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use rmp::Marker;
use rmp::decode::{read_f64, read_int, read_marker};
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use super::super::adapters::Adapter;
use super::super::sequence::{CacheOptions, Ending, Sequence, SequenceSpec};
use super::encode::{Batch, Stored};
use super::publisher::Publisher;
use super::*;

/// A msgpack value; maps keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Value {
    Nil,
    Int(u64),
    Float(f64),
    Text(String),
    Bytes,
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    pub(in super::super) fn read(mut bytes: &[u8]) -> Self {
        let value = read_value(&mut bytes);
        assert!(bytes.is_empty(), "{} bytes follow the value", bytes.len());
        value
    }

    pub(in super::super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { panic!("{self:?} is not a map") };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(in super::super) fn list(&self) -> &[Self] {
        let Self::List(items) = self else { panic!("{self:?} is not a list") };
        items
    }

    pub(in super::super) fn int(&self) -> u64 {
        let Self::Int(value) = self else { panic!("{self:?} is not an integer") };
        *value
    }

    pub(in super::super) fn kind(&self) -> &str {
        let Some(Self::Text(kind)) = self.get("type") else { panic!("{self:?} has no type") };
        kind
    }

    fn keys(&self) -> Vec<&str> {
        let Self::Map(entries) = self else { panic!("{self:?} is not a map") };
        entries.iter().map(|(key, _)| &**key).collect()
    }
}

fn read_value(bytes: &mut &[u8]) -> Value {
    let marker = read_marker(&mut { *bytes }).unwrap();
    match marker {
        Marker::Null => {
            *bytes = &bytes[1..];
            Value::Nil
        }
        Marker::F64 => Value::Float(read_f64(bytes).unwrap()),
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let length = rmp::decode::read_str_len(bytes).unwrap() as usize;
            let (text, rest) = bytes.split_at(length);
            *bytes = rest;
            Value::Text(String::from_utf8(text.to_vec()).unwrap())
        }
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
            let length = rmp::decode::read_bin_len(bytes).unwrap() as usize;
            *bytes = &bytes[length..];
            Value::Bytes
        }
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
            let length = rmp::decode::read_array_len(bytes).unwrap();
            Value::List((0..length).map(|_| read_value(bytes)).collect())
        }
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
            let length = rmp::decode::read_map_len(bytes).unwrap();
            let entry = |_| match read_value(bytes) {
                Value::Text(key) => (key, read_value(bytes)),
                key => panic!("{key:?} as a key"),
            };
            Value::Map((0..length).map(entry).collect())
        }
        _ => Value::Int(read_int(bytes).unwrap()),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn ints(values: impl IntoIterator<Item = u64>) -> Value {
    Value::List(values.into_iter().map(Value::Int).collect())
}

fn adapted(prompt: Vec<u32>, adapter: Option<&str>, salt: Option<&str>, session_id: Option<&str>) -> Sequence {
    let loaded = |name: &str| Arc::new(Adapter { id: 1, name: name.to_owned(), path: "/p".to_owned() });
    Sequence::new(SequenceSpec {
        prompt,
        answer_tokens: 1,
        ending: Ending::Length,
        model: "m",
        adapter: adapter.map(loaded),
        cache: CacheOptions {
            salt: salt.map(str::to_owned),
            session_id: session_id.map(str::to_owned),
            report_cached: false,
        },
        block_tokens: 16,
        seed: 0,
    })
}

fn sequence(prompt: Vec<u32>, salt: Option<&str>, session_id: Option<&str>) -> Sequence {
    adapted(prompt, None, salt, session_id)
}

/// A file among the captures and encodings of real engines, which are not part of the repository.
fn reference(path: &str) -> Option<Vec<u8>> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/engine-samples").join(path);
    let bytes = std::fs::read(&samples).ok();
    if bytes.is_none() {
        println!("skipped: no {path} to compare with");
    }
    bytes
}

#[test]
fn a_batch_is_encoded_as_the_engine_encodes_it() {
    let Some(expected) = reference("wire-versions/0.32.0.int.msgpack") else { return };
    let mut expected = Value::read(&expected);
    // Its second event has not the three fields that a real engine always fills.
    let Value::List(frame) = &mut expected else { panic!("{expected:?}") };
    let Value::List(events) = &mut frame[1] else { panic!("{frame:?}") };
    let second = events.remove(1);

    let first_hashes = [1_229_801_703_532_086_340, 6_148_933_456_521_300_104];
    let mut batch = Batch::default();
    batch.stored(&Stored {
        hashes: &first_hashes,
        parent: None,
        tokens: 0..32,
        sequence: &adapted((100..132).collect(), Some("ad1"), Some("salt"), Some("s1")),
        block_tokens: 16,
    });
    batch.removed(&first_hashes[..1]);
    batch.cleared();
    assert_eq!(Value::read(&batch.finish(1_796_040_300.5)), expected);

    batch.stored(&Stored {
        hashes: &[17_985_594_237_151_595_724],
        parent: Some(first_hashes[1]),
        tokens: 32..48,
        sequence: &sequence([vec![0; 32], (200..216).collect()].concat(), Some("salt"), None),
        block_tokens: 16,
    });
    let ours = Value::read(&batch.finish(0.0));
    let ours = &ours.list()[1].list()[0];
    for key in second.keys() {
        assert_eq!(ours.get(key), second.get(key), "{key}");
    }
    assert_eq!(ours.get("extra_keys"), Some(&Value::List(vec![Value::Nil])));
}

#[test]
fn an_event_has_the_fields_of_a_captured_one_in_the_same_order_and_says_the_same() {
    for (frame, salt) in
        [("a-000", None), ("b-002", Some("tenant-A")), ("b-003", None), ("b-004", Some("s2")), ("b-005", None)]
    {
        let Some(captured) = reference(&format!("frames/{frame}.payload.bin")) else { return };
        let captured = Value::read(&captured);
        let captured = &captured.list()[1].list()[0];
        let of = |key: &str| match captured.get(key) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let (adapter, blocks) = (of("lora_name"), captured.get("block_hashes").unwrap().list().len());
        let mut batch = Batch::default();
        batch.stored(&Stored {
            hashes: &vec![1; blocks],
            parent: None,
            tokens: 0..blocks * 16,
            sequence: &adapted(vec![5; blocks * 16], adapter.as_deref(), salt, of("session_id").as_deref()),
            block_tokens: 16,
        });
        let ours = Value::read(&batch.finish(0.0));
        let ours = &ours.list()[1].list()[0];
        assert_eq!(ours.keys(), captured.keys(), "{frame}");
        for key in ["lora_id", "lora_name", "extra_keys", "medium", "group_idx", "kv_cache_spec_kind", "session_id"] {
            assert_eq!(ours.get(key), captured.get(key), "{frame} {key}");
        }
    }
}

#[test]
fn a_batch_says_what_happened_in_order_and_is_empty_afterwards() {
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    batch.cleared();
    batch.removed(&[u64::MAX]);
    assert!(!batch.is_empty());
    let payload = Value::read(&batch.finish(1.25));
    assert!(batch.is_empty());
    let removed = Value::Map(vec![
        ("type".to_owned(), text("BlockRemoved")),
        ("block_hashes".to_owned(), ints([u64::MAX])),
        ("medium".to_owned(), text("GPU")),
        ("group_idx".to_owned(), Value::Int(0)),
    ]);
    let cleared = Value::Map(vec![("type".to_owned(), text("AllBlocksCleared"))]);
    let events = Value::List(vec![cleared, removed]);
    assert_eq!(payload, Value::List(vec![Value::Float(1.25), events, Value::Int(0)]));
}

proptest! {
    #[test]
    fn stored_blocks_come_back_with_their_hashes_tokens_adapter_and_salt(
        hashes in prop::collection::vec(any::<u64>(), 1..40),
        parent in any::<Option<u64>>(),
        before in 0usize..3,
        salt in prop::option::of("\\PC{1,40}"),
        adapter in prop::option::of("\\PC{1,40}"),
    ) {
        let prompt: Vec<u32> = (0..(before + hashes.len()) as u32 * 16).map(|i| i * 77_777).collect();
        let mut batch = Batch::default();
        batch.stored(&Stored {
            hashes: &hashes,
            parent,
            tokens: before * 16..prompt.len(),
            sequence: &adapted(prompt.clone(), adapter.as_deref(), salt.as_deref(), None),
            block_tokens: 16,
        });
        let payload = Value::read(&batch.finish(0.0));
        let event = &payload.list()[1].list()[0];
        prop_assert_eq!(event.get("block_hashes"), Some(&ints(hashes.iter().copied())));
        prop_assert_eq!(event.get("parent_block_hash"), Some(&parent.map_or(Value::Nil, Value::Int)));
        let tokens = prompt[before * 16..].iter().map(|&token| u64::from(token));
        prop_assert_eq!(event.get("token_ids"), Some(&ints(tokens)));
        let keys = |block: usize| {
            let salt = salt.as_deref().filter(|_| block == 0 && before == 0);
            let keys: Vec<Value> = adapter.as_deref().into_iter().chain(salt).map(text).collect();
            if keys.is_empty() { Value::Nil } else { Value::List(keys) }
        };
        let extra = (0..hashes.len()).map(keys).collect();
        let name = adapter.as_deref().map_or(Value::Nil, text);
        prop_assert_eq!(event.get("lora_name"), Some(&name));
        let id = adapter.as_ref().map_or(Value::Nil, |_| Value::Int(1));
        prop_assert_eq!(event.get("lora_id"), Some(&id));
        prop_assert_eq!(event.get("extra_keys"), Some(&Value::List(extra)));
    }
}

/// Asks for a replay and reads it to its end mark.
pub(in super::super) async fn replay(endpoint: &str, start: u64) -> Vec<(String, u64, Bytes)> {
    let mut dealer = DealerSocket::new();
    dealer.connect(endpoint).await.unwrap();
    let mut request = ZmqMessage::from(Bytes::new());
    request.push_back(Bytes::copy_from_slice(&start.to_be_bytes()));
    dealer.send(request).await.unwrap();
    let mut batches = Vec::new();
    loop {
        let frames = dealer.recv().await.unwrap().into_vec();
        let [empty, topic, seq, payload] = &frames[..] else { panic!("{frames:?}") };
        assert!(empty.is_empty());
        let seq = u64::from_be_bytes(seq[..].try_into().unwrap());
        if seq == u64::MAX {
            assert!(topic.is_empty() && payload.is_empty());
            return batches;
        }
        batches.push((String::from_utf8(topic.to_vec()).unwrap(), seq, payload.clone()));
    }
}

fn config(buffer_steps: usize, buffer_bytes_max: usize) -> KvEventsConfig {
    KvEventsConfig {
        publish: "tcp://127.0.0.1:0".to_owned(),
        replay: Some("tcp://127.0.0.1:0".to_owned()),
        topic: "kv@t".to_owned(),
        buffer_steps,
        buffer_bytes_max,
    }
}

#[tokio::test]
async fn a_subscriber_gets_topic_number_and_payload() {
    let mut publisher = Publisher::start(&config(10, 1000)).await.unwrap();
    let mut subscriber = SubSocket::new();
    subscriber.connect(publisher.endpoint()).await.unwrap();
    subscriber.subscribe("kv@").await.unwrap();
    // A subscription takes a moment to arrive: publish until something does.
    let first = loop {
        publisher.publish(b"payload".to_vec());
        let wait = std::time::Duration::from_millis(20);
        if let Ok(message) = tokio::time::timeout(wait, subscriber.recv()).await {
            break message.unwrap().into_vec();
        }
    };
    assert_eq!(first[0], "kv@t");
    let seq = u64::from_be_bytes(first[1][..].try_into().unwrap());
    assert_eq!(first[2], "payload");
    publisher.publish(b"next".to_vec());
    let next = subscriber.recv().await.unwrap().into_vec();
    assert_eq!(next[1][..], (seq + 1).to_be_bytes());
}

#[tokio::test]
async fn a_replay_gives_what_is_kept_from_a_number_on() {
    for (steps, bytes, start, expected) in [
        (10, 1000, 0, vec![0, 1, 2, 3, 4]),
        (10, 1000, 3, vec![3, 4]),
        (10, 1000, 5, vec![]),
        (10, 1000, u64::MAX, vec![]),
        (2, 1000, 0, vec![3, 4]),
        (10, 25, 1, vec![3, 4]),
        (0, 1000, 0, vec![]),
        (10, 5, 0, vec![]),
    ] {
        let mut publisher = Publisher::start(&config(steps, bytes)).await.unwrap();
        for _ in 0..5 {
            publisher.publish(vec![7; 10]);
        }
        let batches = replay(publisher.replay_endpoint().unwrap(), start).await;
        let numbers: Vec<u64> = batches.iter().map(|&(_, seq, _)| seq).collect();
        assert_eq!(numbers, expected, "{steps} steps, {bytes} bytes, from {start}");
        assert!(batches.iter().all(|(topic, _, payload)| topic == "kv@t" && payload[..] == [7; 10]));
    }
}

#[tokio::test]
async fn a_replay_request_of_another_shape_is_passed_over() {
    let mut publisher = Publisher::start(&config(10, 1000)).await.unwrap();
    publisher.publish(vec![1]);
    let endpoint = publisher.replay_endpoint().unwrap();
    let mut dealer = DealerSocket::new();
    dealer.connect(endpoint).await.unwrap();
    dealer.send(ZmqMessage::from(Bytes::from_static(&[0; 8]))).await.unwrap();
    for (first, second) in [(&b""[..], &b"short"[..]), (b"x", &[0; 8]), (b"", &[0; 9])] {
        let mut request = ZmqMessage::from(Bytes::copy_from_slice(first));
        request.push_back(Bytes::copy_from_slice(second));
        dealer.send(request).await.unwrap();
    }
    assert_eq!(replay(endpoint, 0).await.len(), 1);
}
