//! The LoRA adapters that an engine has loaded.
//!
//! A name means one adapter at a time. Its number is never given to another, so that a cache event
//! tells adapters apart that had one name after the other; loading in place keeps the number, as the
//! adapter is then the same one with other weights. Requests that run keep the adapter they began
//! with, whatever happens to its name.
//!
//! Weights are nothing here but their path: it takes part in the hash of every block, as in vLLM since
//! 0.31.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::{AdapterConfig, EngineConfig, StartError};
use super::error::ApiError;

/// More are refused. vLLM has no such limit: there it is the weights that fill memory.
const LOADED_MAX: usize = 1024;

/// Longer names and paths are refused: every event repeats the name.
const TEXT_CHARS_MAX: usize = 1024;

/// An adapter. Immutable: loading in place makes another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// From 1.
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) path: String,
}

/// See the module.
pub(super) struct Adapters {
    /// The base model's name, which no adapter may have.
    model: String,
    by_name: BTreeMap<String, Arc<Adapter>>,
    last_id: u32,
}

impl Adapters {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), by_name: BTreeMap::new(), last_id: 0 }
    }

    /// With those that the configuration names.
    pub(super) fn configured(config: &EngineConfig) -> Result<Self, StartError> {
        let mut adapters = Self::new(&config.model);
        for AdapterConfig { name, path } in &config.adapters {
            adapters.load(name, path, false).map_err(|error| StartError::Adapter(error.message()))?;
        }
        Ok(adapters)
    }

    /// The adapter of that name.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<Adapter>> {
        self.by_name.get(name)
    }

    /// All of them, as they were first loaded.
    pub(super) fn list(&self) -> Vec<Arc<Adapter>> {
        let mut list: Vec<_> = self.by_name.values().cloned().collect();
        list.sort_unstable_by_key(|adapter| adapter.id);
        list
    }

    /// Loads an adapter. One that is there already is replaced if `in_place` says so, else refused.
    pub(super) fn load(&mut self, name: &str, path: &str, in_place: bool) -> Result<(), ApiError> {
        if name.is_empty() || path.is_empty() {
            return Err(ApiError::user("Both 'lora_name' and 'lora_path' must be provided."));
        }
        let fits = |text: &str| text.chars().nth(TEXT_CHARS_MAX).is_none();
        if !fits(name) || !fits(path) {
            return Err(ApiError::user(format!("name and path must have at most {TEXT_CHARS_MAX} characters")));
        }
        if name == self.model {
            return Err(ApiError::user(format!("'{name}' is the name of the base model")));
        }
        let id = match self.by_name.get(name) {
            Some(loaded) if in_place => loaded.id,
            Some(_) => {
                return Err(ApiError::user(format!(
                    "The lora adapter '{name}' has already been loaded. \
                     If you want to load the adapter in place, set 'load_inplace' to True."
                )));
            }
            None if self.by_name.len() >= LOADED_MAX => {
                return Err(ApiError::user(format!("{LOADED_MAX} adapters are loaded, no more fit")));
            }
            None => {
                self.last_id += 1;
                self.last_id
            }
        };
        let adapter = Adapter { id, name: name.to_owned(), path: path.to_owned() };
        self.by_name.insert(name.to_owned(), Arc::new(adapter));
        Ok(())
    }

    /// Forgets an adapter.
    pub(super) fn unload(&mut self, name: &str) -> Result<(), ApiError> {
        match self.by_name.remove(name) {
            Some(_) => Ok(()),
            None => Err(ApiError::NoAdapter(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(adapters: &Adapters) -> Vec<(u32, String, String)> {
        adapters.list().iter().map(|adapter| (adapter.id, adapter.name.clone(), adapter.path.clone())).collect()
    }

    fn entry(id: u32, name: &str, path: &str) -> (u32, String, String) {
        (id, name.to_owned(), path.to_owned())
    }

    #[test]
    fn a_number_is_never_given_to_another_adapter() {
        let mut adapters = Adapters::new("m");
        adapters.load("b", "/b", false).unwrap();
        adapters.load("a", "/a", false).unwrap();
        assert_eq!(ids(&adapters), [entry(1, "b", "/b"), entry(2, "a", "/a")]);
        let running = Arc::clone(adapters.find("b").unwrap());
        adapters.load("b", "/b2", true).unwrap();
        assert_eq!(ids(&adapters), [entry(1, "b", "/b2"), entry(2, "a", "/a")]);
        assert_eq!(running.path, "/b");
        adapters.unload("b").unwrap();
        adapters.load("b", "/b", true).unwrap();
        assert_eq!(ids(&adapters), [entry(2, "a", "/a"), entry(3, "b", "/b")]);
    }

    #[test]
    fn what_cannot_be_loaded_changes_nothing() {
        let mut adapters = Adapters::new("m");
        adapters.load("a", "/a", false).unwrap();
        let long = "x".repeat(TEXT_CHARS_MAX + 1);
        for (name, path, in_place) in [
            ("", "/p", false),
            ("b", "", false),
            ("m", "/p", true),
            ("a", "/p", false),
            (&long, "/p", false),
            ("b", &long, false),
        ] {
            assert!(matches!(adapters.load(name, path, in_place), Err(ApiError::UserInput(_))), "{name:?}");
        }
        assert_eq!(adapters.unload("b"), Err(ApiError::NoAdapter("b".to_owned())));
        assert_eq!(ids(&adapters), [entry(1, "a", "/a")]);
    }

    #[test]
    fn no_more_are_loaded_than_fit() {
        let mut adapters = Adapters::new("m");
        for index in 0..LOADED_MAX {
            adapters.load(&index.to_string(), "/p", false).unwrap();
        }
        assert!(adapters.load("one more", "/p", false).is_err());
        adapters.load("7", "/p", true).unwrap();
        adapters.unload("7").unwrap();
        adapters.load("one more", "/p", false).unwrap();
    }
}
