//! Changes of the fleet while requests are under way.

use std::cmp::Reverse;

use super::Sim;
use crate::InvalidOption;
use crate::replay::fleet::{State, Then};
use crate::replay::outcome::{Ending, FleetMark};
use crate::replay::schedule::Change;

/// Something that is to happen to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Place of an event in the schedule.
    Event(u32),
    /// The cold start of a replica is over.
    Started(usize),
}

impl Sim<'_> {
    /// Something is to happen at a time. What was said first happens first.
    pub(super) fn at(&mut self, at_us: u64, due: Due) {
        self.changes_made += 1;
        self.changes.push(Reverse((at_us, self.changes_made, due)));
    }

    pub(super) fn change(&mut self, due: Due, now_us: u64) -> Result<(), InvalidOption> {
        match due {
            Due::Started(number) => {
                self.fleet.started(number);
                self.mark(number, "serves", now_us, false);
                self.deploy_next(now_us);
            }
            Due::Event(index) => {
                let event = &self.setting.events[index as usize];
                match &event.change {
                    Change::Add(count) => (0..*count).for_each(|_| self.join(now_us)),
                    Change::Remove(count) => {
                        for number in self.fleet.newest(*count) {
                            self.mark(number, "leaves", now_us, true);
                            self.fleet.drain(number, Then::Leave);
                            self.maybe_drained(number, now_us);
                        }
                    }
                    Change::Restart(id) => {
                        let number =
                            self.fleet.number_of(id).filter(|number| self.fleet.replicas[*number].state != State::Gone);
                        let Some(number) = number else {
                            let problem = format!("{event}: there is no replica {id:?}; they are called r1, r2, ...");
                            return Err(InvalidOption::new("event", problem));
                        };
                        self.mark(number, "dies", now_us, true);
                        self.restart(number, now_us);
                    }
                    Change::Deploy => {
                        let up = |number: &usize| self.fleet.replicas[*number].state == State::Up;
                        self.deploying = (0..self.fleet.replicas.len()).rev().filter(up).collect();
                        let what = format!("deploy of {} replicas begins", self.deploying.len());
                        self.run.marks.push(FleetMark { at_us: now_us, what, is_event: true });
                        self.deploy_next(now_us);
                    }
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, number: usize, what: &str, at_us: u64, is_event: bool) {
        let what = format!("{} {what}", self.fleet.replicas[number].id);
        self.run.marks.push(FleetMark { at_us, what, is_event });
    }

    fn join(&mut self, now_us: u64) {
        let number = self.fleet.join();
        self.note_replicas(now_us);
        self.mark(number, "joins", now_us, true);
        self.at(now_us.saturating_add(self.fleet.cold_start_us), Due::Started(number));
    }

    /// The next replica of a deploy begins to drain, if the one before is back.
    fn deploy_next(&mut self, now_us: u64) {
        let is_under_way = |state| matches!(state, State::Draining(Then::Restart) | State::Starting);
        if self.fleet.replicas.iter().any(|replica| is_under_way(replica.state)) {
            return;
        }
        if let Some(number) = self.deploying.pop() {
            self.mark(number, "drains", now_us, false);
            self.fleet.drain(number, Then::Restart);
            self.maybe_drained(number, now_us);
        }
    }

    /// A replica that was to end what it has may have ended it.
    pub(super) fn maybe_drained(&mut self, number: usize, now_us: u64) {
        let replica = &self.fleet.replicas[number];
        let State::Draining(then) = replica.state else { return };
        if replica.live.load.in_flight() > 0 {
            return;
        }
        match then {
            Then::Leave => {
                let since = self.present_since[number].take();
                self.run.present_us[number] += since.map_or(0, |since| now_us.saturating_sub(since));
                self.fleet.leave(number);
            }
            Then::Restart => self.restart(number, now_us),
        }
    }

    /// A replica starts again; what it had is lost.
    fn restart(&mut self, number: usize, now_us: u64) {
        let has = |slot: &Option<super::Slot>| slot.as_ref().is_some_and(|slot| slot.number == number);
        let lost: Vec<u32> = (0..self.slots.len() as u32).filter(|id| has(&self.slots[*id as usize])).collect();
        self.fleet.restart(number);
        self.expect(number);
        lost.into_iter().for_each(|id| self.end(id, Ending::Lost, now_us));
        if let Some(index) = self.baseline.as_mut().and_then(|rule| rule.index()) {
            index.cleared(number);
        }
        self.at(now_us.saturating_add(self.fleet.cold_start_us), Due::Started(number));
    }
}
