//! Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam): a ring, and no replica takes more than
//! `load_factor` times the mean.
//!
//! Capacity: `ceil(load_factor x (m + 1) / N)` with *m* requests in flight on *N* replicas; from the key's point on, the
//! first replica below it. KubeAI's defaults: 125 %, 256 points. The key is that of `prefix_aware`, where KubeAI takes the
//! first 100 characters.

use kvroute_core::{decision::Reason, moment::Entropy, strategy::Pick};

use super::{Ask, Rule, least, no_such, positive, ring::Ring};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Most load of a replica, as a multiple of the mean.
    pub load_factor: f64,
    /// Points of a replica on the ring.
    pub points: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { load_factor: 1.25, points: 256 }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "load_factor" => self.load_factor = positive(value)?.max(1.0),
            "points" => self.points = positive(value)?.clamp(1.0, 65_536.0) as u32,
            _ => return Err(no_such(&["prefix_length", "load_factor", "points"])),
        }
        Ok(())
    }
}

pub(super) struct Chwbl {
    settings: Settings,
    ring: Ring,
}

impl Chwbl {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), ring: Ring::default() }
    }
}

impl Rule for Chwbl {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let by_load = |entropy: &mut Entropy| least(ask.eligible(), entropy, |place| place.in_flight);
        let Some(key) = ask.facts.prefix_key(0) else {
            let place = by_load(entropy).expect("a place is eligible");
            return Pick::new(place.index, Reason::NoPrefix);
        };
        self.ring.update(ask, self.settings.points);
        let (count, sum) = ask.eligible().fold((0u32, 0u32), |(n, m), place| (n + 1, m + place.in_flight));
        let capacity = (self.settings.load_factor * f64::from(sum + 1) / f64::from(count)).ceil();
        let places: Vec<_> = ask.eligible().collect();
        let place_of = |number: usize| places.iter().find(|place| place.number == number);
        let mut walk = self.ring.from(key).filter_map(place_of);
        let home = walk.clone().next().expect("the ring holds the eligible places");
        let fits = walk.find(|place| f64::from(place.in_flight) < capacity).expect("the mean is below the capacity");
        let reason = if fits.index == home.index { Reason::Cold } else { Reason::SpillConcurrency };
        Pick { index: fits.index, reason, home: Some(home.index) }
    }
}
