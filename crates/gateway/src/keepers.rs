//! Which engine keeps what later requests go on with: a stateful session, an answer that a next one refers to.
//!
//! Such a request can be answered by nobody else, and its id says nothing about where that is: containers and engines
//! choose ids, and with answers the id changes every turn. So the gateway remembers, for a bounded number of the most
//! used ids. What it has forgotten goes by the strategy, and the engine that does not know the id says so.

use kvroute_core::fleet::EngineId;
use kvroute_core::hash;
use quick_cache::sync::Cache;

/// Ids remembered of all kinds together: about 10 MB.
const IDS_MAX: usize = 100_000;

/// What an id names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A SageMaker session.
    Session,
    /// An answer of the Responses API.
    Response,
}

/// Remembers.
#[derive(Debug)]
pub(crate) struct Keepers(Cache<u64, EngineId>);

impl Default for Keepers {
    fn default() -> Self {
        Self(Cache::new(IDS_MAX))
    }
}

impl Keepers {
    /// The engine that keeps it, if that is remembered.
    pub(crate) fn of(&self, endpoint: &str, kind: Kind, id: &str) -> Option<EngineId> {
        self.0.get(&key(endpoint, kind, id))
    }

    /// The engine keeps it from now on.
    pub(crate) fn keeps(&self, endpoint: &str, kind: Kind, id: &str, engine: EngineId) {
        self.0.insert(key(endpoint, kind, id), engine);
    }

    /// Nobody keeps it any more.
    pub(crate) fn forget(&self, endpoint: &str, kind: Kind, id: &str) {
        self.0.remove(&key(endpoint, kind, id));
    }
}

fn key(endpoint: &str, kind: Kind, id: &str) -> u64 {
    hash::bytes(id.as_bytes(), hash::bytes(endpoint.as_bytes(), kind as u64))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kvroute_core::fleet::{Replica, TargetId};
    use kvroute_core::live::Live;

    use super::*;

    fn engine() -> EngineId {
        Replica::new("r1", 1.0, TargetId(0), Arc::new(Live::new(1))).engine()
    }

    #[test]
    fn an_id_is_remembered_for_its_endpoint_until_it_is_closed() {
        let keepers = Keepers::default();
        keepers.keeps("e", Kind::Session, "s1", engine());
        assert_eq!(keepers.of("e", Kind::Session, "s1"), Some(engine()));
        assert_eq!(keepers.of("other", Kind::Session, "s1"), None);
        keepers.forget("e", Kind::Session, "s1");
        assert_eq!(keepers.of("e", Kind::Session, "s1"), None);
    }

    #[test]
    fn no_number_of_ids_makes_it_grow_without_limit() {
        let keepers = Keepers::default();
        for id in 0..3 * IDS_MAX {
            keepers.keeps("e", Kind::Session, &id.to_string(), engine());
        }
        assert!(keepers.0.len() <= IDS_MAX);
    }
}
