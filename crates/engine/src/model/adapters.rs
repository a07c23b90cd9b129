//! Which adapters a set of requests runs with.

use super::sequence::Sequence;

/// Adapters, each once, ascending. Small: a batch has few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AdapterSet(Vec<u32>);

impl AdapterSet {
    /// Whether one more request may join those who have these adapters, where `adapters_max` fit.
    pub(super) fn admits(&self, adapter: Option<u32>, adapters_max: u32) -> bool {
        match adapter {
            None => true,
            Some(adapter) => self.0.len() < adapters_max as usize || self.0.binary_search(&adapter).is_ok(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_vec(self) -> Vec<u32> {
        self.0
    }
}

impl<'a> FromIterator<&'a Sequence> for AdapterSet {
    fn from_iter<I: IntoIterator<Item = &'a Sequence>>(sequences: I) -> Self {
        let mut set = Vec::new();
        for adapter in sequences.into_iter().filter_map(|sequence| sequence.adapter) {
            if let Err(place) = set.binary_search(&adapter) {
                set.insert(place, adapter);
            }
        }
        Self(set)
    }
}
