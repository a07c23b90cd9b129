//! An LRU set of names, as large as one replica's cache.

use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// A map into a slab whose entries form a list, newest first.
#[derive(Debug)]
pub(super) struct Lru {
    slots: HashMap<u32, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    name: u32,
    newer: u32,
    older: u32,
}

impl Lru {
    /// Holds at most `capacity` names, and at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: HashMap::new(), entries: Vec::new(), newest: NONE, oldest: NONE, capacity: capacity.max(1) }
    }

    /// Leading names of a prompt that are held.
    pub(super) fn matched(&self, names: &[u32]) -> usize {
        // What is held of a prompt is a beginning of it, since a beginning is touched after what follows it.
        names.partition_point(|name| self.slots.contains_key(name))
    }

    /// A prompt was computed: it is held now, at the expense of what was used longest ago.
    pub(super) fn insert(&mut self, names: &[u32]) {
        names[..names.len().min(self.capacity)].iter().rev().for_each(|&name| self.touch(name));
    }

    fn touch(&mut self, name: u32) {
        let slot = if let Some(&slot) = self.slots.get(&name) {
            if slot == self.newest {
                return;
            }
            self.unlink(slot);
            slot
        } else if self.entries.len() < self.capacity {
            let slot = self.entries.len() as u32;
            self.entries.push(Entry { name, newer: NONE, older: NONE });
            self.slots.insert(name, slot);
            slot
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.slots.remove(&self.entries[slot as usize].name);
            self.entries[slot as usize].name = name;
            self.slots.insert(name, slot);
            slot
        };
        self.link_newest(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        let entry = &mut self.entries[slot as usize];
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = slot,
            older => self.entries[older as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_list_that_drops_its_end_holds(
            // Prompts as paths in a binary tree, so that a name stands for all before it.
            prompts in prop::collection::vec(prop::collection::vec(0u32..2, 1..6), 1..50),
            capacity in 1usize..20,
        ) {
            let mut lru = Lru::new(capacity);
            let mut held: Vec<u32> = Vec::new();
            for prompt in prompts {
                let names: Vec<u32> =
                    prompt.iter().scan(1, |node, &side| { *node = *node * 2 + side; Some(*node) }).collect();
                let expected = names.iter().take_while(|name| held.contains(name)).count();
                prop_assert_eq!(lru.matched(&names), expected);
                lru.insert(&names);
                for name in names.iter().rev() {
                    held.retain(|other| other != name);
                    held.insert(0, *name);
                }
                held.truncate(capacity);
            }
        }
    }
}
