//! What became of every request, by the `x-request-id` that came with it.
//!
//! A test that sends thousands of requests through a router that retries, while clients leave and
//! engines fail, reads here that nothing was lost and nothing answered twice. Kept only where faults
//! may be injected, and only for requests that ask for work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hyper::header::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;

/// Ids that are remembered; the oldest are forgotten.
const IDS_MAX: usize = 65_536;

/// Longer ids are cut.
const ID_BYTES_MAX: usize = 128;

/// See the module. A handle: clones share the books.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    by_id: BTreeMap<Arc<str>, Counts>,
    /// Ids in the order in which they were first seen.
    order: VecDeque<Arc<str>>,
    /// Requests without an id.
    without_id: Counts,
    /// Ids that were forgotten.
    forgotten: u64,
}

/// What became of requests with one id. What is not yet ended is in none but `received`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    received: u64,
    finished: u64,
    aborted: u64,
    failed: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its answer was sent to the end.
    Finished,
    /// Its client left.
    Aborted,
    /// It was refused, or its answer broken off by the engine.
    Failed,
}

/// A request whose end is awaited. Dropped without an outcome, its client has left.
pub(super) struct Receipt {
    ledger: Ledger,
    id: Option<Arc<str>>,
    settled: bool,
}

/// `/debug/requests`.
#[derive(Serialize)]
struct Page<'a> {
    requests: Vec<Line<'a>>,
    without_id: Counts,
    forgotten: u64,
    ids_max: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    #[serde(flatten)]
    counts: Counts,
}

impl Ledger {
    /// Books a request that came with these headers.
    pub(super) fn received(&self, headers: &HeaderMap) -> Receipt {
        let id = headers.get("x-request-id").map(|value| {
            let bytes = value.as_bytes();
            String::from_utf8_lossy(&bytes[..bytes.len().min(ID_BYTES_MAX)]).into_owned()
        });
        let mut books = self.0.lock();
        let id = id.map(|id| books.key(&id));
        if let Some(counts) = books.counts(id.as_deref()) {
            counts.received += 1;
        }
        drop(books);
        Receipt { ledger: self.clone(), id, settled: false }
    }

    /// The page as JSON.
    pub(super) fn page(&self) -> Vec<u8> {
        let books = self.0.lock();
        let line = |id| books.by_id.get_key_value(id).map(|(id, &counts)| Line { id, counts });
        let page = Page {
            requests: books.order.iter().filter_map(line).collect(),
            without_id: books.without_id,
            forgotten: books.forgotten,
            ids_max: IDS_MAX,
        };
        // Neither the writer nor this shape can fail.
        serde_json::to_vec(&page).unwrap_or_default()
    }
}

impl Books {
    /// The id as it is kept; made room for if it is new.
    fn key(&mut self, id: &str) -> Arc<str> {
        if let Some((id, _)) = self.by_id.get_key_value(id) {
            return Arc::clone(id);
        }
        if self.order.len() >= IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
            self.forgotten += 1;
        }
        let id: Arc<str> = id.into();
        self.order.push_back(Arc::clone(&id));
        self.by_id.insert(Arc::clone(&id), Counts::default());
        id
    }

    /// `None` for an id that was forgotten.
    fn counts(&mut self, id: Option<&str>) -> Option<&mut Counts> {
        match id {
            Some(id) => self.by_id.get_mut(id),
            None => Some(&mut self.without_id),
        }
    }
}

impl Receipt {
    /// The request has ended so. Only the first word counts.
    pub(super) fn settle(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let mut books = self.ledger.0.lock();
        let Some(counts) = books.counts(self.id.as_deref()) else { return };
        match outcome {
            Outcome::Finished => counts.finished += 1,
            Outcome::Aborted => counts.aborted += 1,
            Outcome::Failed => counts.failed += 1,
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.settle(Outcome::Aborted);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn headers(id: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(id) = id {
            headers.insert("x-request-id", id.parse().unwrap());
        }
        headers
    }

    fn page(ledger: &Ledger) -> Value {
        serde_json::from_slice(&ledger.page()).unwrap()
    }

    #[test]
    fn every_request_is_counted_once_however_it_ends() {
        let ledger = Ledger::default();
        let mut first = ledger.received(&headers(Some("b")));
        first.settle(Outcome::Finished);
        first.settle(Outcome::Failed);
        drop(first);
        drop(ledger.received(&headers(Some("b"))));
        ledger.received(&headers(Some("a"))).settle(Outcome::Failed);
        let open = ledger.received(&headers(None));
        let page = page(&ledger);
        assert_eq!(
            page["requests"],
            json!([
                {"id": "b", "received": 2, "finished": 1, "aborted": 1, "failed": 0},
                {"id": "a", "received": 1, "finished": 0, "aborted": 0, "failed": 1},
            ])
        );
        assert_eq!(page["without_id"], json!({"received": 1, "finished": 0, "aborted": 0, "failed": 0}));
        drop(open);
    }

    #[test]
    fn the_oldest_ids_are_forgotten_and_their_ends_with_them() {
        let ledger = Ledger::default();
        let first = ledger.received(&headers(Some("first")));
        for index in 0..IDS_MAX {
            ledger.received(&headers(Some(&index.to_string()))).settle(Outcome::Finished);
        }
        drop(first);
        let page = page(&ledger);
        assert_eq!((page["forgotten"].as_u64(), page["requests"].as_array().unwrap().len()), (Some(1), IDS_MAX));
        assert_eq!(page["requests"][0]["id"], "0");
    }

    #[test]
    fn a_long_id_is_cut_and_a_strange_one_is_readable() {
        let ledger = Ledger::default();
        let mut strange = HeaderMap::new();
        strange.insert("x-request-id", hyper::header::HeaderValue::from_bytes(b"a\xff").unwrap());
        drop(ledger.received(&strange));
        drop(ledger.received(&headers(Some(&"x".repeat(1000)))));
        let page = page(&ledger);
        assert_eq!(page["requests"][0]["id"], "a\u{fffd}");
        assert_eq!(page["requests"][1]["id"].as_str().unwrap().len(), ID_BYTES_MAX);
    }
}
