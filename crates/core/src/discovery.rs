//! Which engines of an endpoint have which adapter, as their own model lists say.
//!
//! Engines load and unload adapters while they run. The lists are read from time to time, elsewhere; here is what the
//! last one of each said, turned over: for a request it matters who has an adapter, not what one engine has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::fleet::EngineId;

/// The engines that have an adapter.
pub type Holders = Arc<HashSet<EngineId>>;

/// What the engines of one endpoint said last. Shared between snapshots.
#[derive(Debug, Default)]
pub struct Discovery(RwLock<Listed>);

#[derive(Debug, Default)]
struct Listed {
    /// Those that are asked.
    engines: HashSet<EngineId>,
    by_engine: HashMap<EngineId, HashSet<String>>,
    by_adapter: HashMap<String, Holders>,
}

impl Discovery {
    /// The engines that list `name` as an adapter; `None` where no engine does.
    pub fn holders(&self, name: &str) -> Option<Holders> {
        self.0.read().by_adapter.get(name).cloned()
    }

    /// An engine lists these adapters and no others. Says whether that is new.
    pub fn lists(&self, engine: EngineId, adapters: &HashSet<String>) -> bool {
        let mut listed = self.0.write();
        listed.engines.contains(&engine) && listed.change(engine, adapters)
    }

    /// From now on these are the engines of the endpoint: what others listed is forgotten, and what is still on its way
    /// from them is not taken.
    pub fn follow(&self, engines: HashSet<EngineId>) {
        let gone: Vec<EngineId> = {
            let mut listed = self.0.write();
            listed.engines = engines;
            listed.by_engine.keys().filter(|engine| !listed.engines.contains(engine)).copied().collect()
        };
        gone.into_iter().for_each(|engine| _ = self.0.write().change(engine, &HashSet::new()));
    }
}

impl Listed {
    fn change(&mut self, engine: EngineId, adapters: &HashSet<String>) -> bool {
        let before = match adapters.is_empty() {
            true => self.by_engine.remove(&engine),
            false => self.by_engine.insert(engine, adapters.clone()),
        };
        let before = before.unwrap_or_default();
        for gone in before.difference(adapters) {
            let holders = self.by_adapter.get_mut(gone).map(Arc::make_mut);
            if holders.is_some_and(|holders| holders.remove(&engine) && holders.is_empty()) {
                self.by_adapter.remove(gone);
            }
        }
        for new in adapters.difference(&before) {
            Arc::make_mut(self.by_adapter.entry(new.clone()).or_default()).insert(engine);
        }
        before != *adapters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::{Replica, TargetId};
    use crate::live::Live;

    fn engine(n: u8) -> EngineId {
        Replica::new(&format!("r{n}"), 1.0, TargetId(0), Arc::new(Live::new(1))).engine()
    }

    proptest! {
        #[test]
        fn whoever_listed_an_adapter_last_has_it(said in prop::collection::vec((0u8..4, prop::collection::hash_set(0u8..5, 0..4)), 0..30)) {
            let discovery = Discovery::default();
            let engines = |names: std::ops::Range<u8>| names.map(engine).collect::<HashSet<_>>();
            discovery.follow(engines(0..4));
            let mut last: HashMap<u8, HashSet<u8>> = HashMap::new();
            for (name, adapters) in said {
                let is_new = discovery.lists(engine(name), &adapters.iter().map(u8::to_string).collect());
                let before = last.insert(name, adapters.clone()).unwrap_or_default();
                prop_assert_eq!(is_new, before != adapters);
                for adapter in 0u8..5 {
                    let holders: HashSet<EngineId> =
                        last.iter().filter(|(_, listed)| listed.contains(&adapter)).map(|(name, _)| engine(*name)).collect();
                    let told = discovery.holders(&adapter.to_string());
                    prop_assert_eq!(told.as_deref().cloned().unwrap_or_default(), holders.clone());
                    prop_assert_eq!(told.is_none(), holders.is_empty(), "nobody is told as nobody");
                }
            }
            discovery.follow(engines(2..4));
            prop_assert!(!discovery.lists(engine(0), &HashSet::from(["late".to_owned()])), "it is gone");
            let listed = discovery.0.read();
            let left: HashSet<EngineId> = listed.by_adapter.values().flat_map(|holders| holders.iter().copied()).collect();
            prop_assert!(left.is_subset(&engines(2..4)) && listed.by_engine.keys().all(|engine| left.contains(engine)));
        }
    }
}
