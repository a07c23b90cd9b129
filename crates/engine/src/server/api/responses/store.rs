//! Responses that can be gone on from.
//!
//! Kept is the text of the conversation up to the response's end, as the model reads it. Both number
//! and size are limited, and the oldest go first: a client that comes back too late is told that the
//! response is not known, as after a restart.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// Responses that are kept.
const COUNT_MAX: usize = 16_384;

/// Their text.
const BYTES_MAX: usize = 64 << 20;

/// See the module.
#[derive(Default)]
pub(in super::super::super) struct ResponseStore(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_id: BTreeMap<Arc<str>, Arc<str>>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

impl ResponseStore {
    /// The conversation up to that response.
    pub(super) fn find(&self, id: &str) -> Option<Arc<str>> {
        self.0.lock().by_id.get(id).cloned()
    }

    /// Keeps a response under an id that is new.
    pub(super) fn keep(&self, id: &str, conversation: String) {
        let id: Arc<str> = id.into();
        let mut kept = self.0.lock();
        kept.bytes += conversation.len();
        kept.order.push_back(Arc::clone(&id));
        kept.by_id.insert(id, conversation.into());
        while kept.order.len() > COUNT_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { return };
            let text = kept.by_id.remove(&oldest);
            kept.bytes -= text.map_or(0, |text| text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_until_there_are_too_many() {
        let store = ResponseStore::default();
        for index in 0..=COUNT_MAX {
            store.keep(&index.to_string(), format!("text {index}"));
        }
        assert_eq!(store.find("0"), None);
        assert_eq!(store.find("1").as_deref(), Some("text 1"));
        assert_eq!(store.0.lock().order.len(), COUNT_MAX);
    }

    #[test]
    fn size_is_limited_too() {
        let store = ResponseStore::default();
        store.keep("a", "x".repeat(BYTES_MAX / 2));
        store.keep("b", "x".repeat(BYTES_MAX / 2));
        assert!(store.find("a").is_some() && store.find("b").is_some());
        store.keep("c", "x".to_owned());
        assert!(store.find("a").is_none() && store.find("b").is_some() && store.find("c").is_some());
        store.keep("d", "x".repeat(BYTES_MAX + 1));
        let kept = store.0.lock();
        assert_eq!((kept.by_id.len(), kept.bytes), (0, 0));
    }
}
