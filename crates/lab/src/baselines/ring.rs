//! A hash ring: every replica has many points on it, and a key belongs to the next point.

use kvroute_core::hash;

use super::Ask;

/// Points of the replicas that are there.
#[derive(Debug, Default)]
pub(super) struct Ring {
    points: Vec<(u64, usize)>,
    members: Vec<usize>,
}

impl Ring {
    /// Puts the eligible places on the ring, `points` each, if they are others than before.
    pub(super) fn update(&mut self, ask: &Ask<'_>, points: u32) {
        if ask.eligible().map(|place| place.number).eq(self.members.iter().copied()) {
            return;
        }
        self.members = ask.eligible().map(|place| place.number).collect();
        let of = |member: usize| (0..points).map(move |point| (hash::mix(member as u64 + 1, u64::from(point)), member));
        self.points = self.members.iter().flat_map(|member| of(*member)).collect();
        self.points.sort_unstable();
    }

    /// The replicas from the key's point on, each as often as it has points.
    pub(super) fn from(&self, key: u64) -> impl Iterator<Item = usize> + Clone {
        let start = self.points.partition_point(|(point, _)| *point < key);
        self.points[start..].iter().chain(&self.points[..start]).map(|(_, member)| *member)
    }
}
