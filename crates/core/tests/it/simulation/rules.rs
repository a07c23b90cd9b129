//! What must hold of every decision.

use kvroute_core::abilities::{Abilities, Role};
use kvroute_core::breaker::Verdict;
use kvroute_core::decision::{Candidate, Choice, Reason};
use kvroute_core::facts::RequestFacts;
use kvroute_core::live::{Duty, Health};
use kvroute_core::routing::Strategy;

use super::World;
use crate::fixture::Explained;

impl World<'_> {
    /// The rules of a decision, from outside.
    pub(super) fn check_decision(&self, decision: &Explained, facts: &RequestFacts, tried: &[Choice], before: &[u32]) {
        let variant = &self.endpoint.variants[0];
        let chosen = decision.choice;
        assert!(!tried.contains(&chosen), "a retry never asks the same place again");
        let replica = &variant.replicas[chosen.replica];
        assert_eq!(replica.live.duty(), Duty::Ready, "a draining replica gets nothing");
        assert_eq!(chosen.copy.is_some(), facts.component.is_some(), "a component is served by a copy");
        if let Some(copy) = chosen.copy {
            assert_eq!(self.endpoint.components[0].copies[copy].replica, chosen.replica, "the copy is on its replica");
        }
        assert_ne!(self.engine(chosen).health(), Health::Down, "one that is down gets nothing");
        let verdict = self.verdict(self.engine(chosen));
        assert!(!matches!(verdict, Verdict::Ejected { is_reachable: false, .. }), "nor one that cannot be reached");
        let model = facts.model.as_deref().unwrap_or_default();
        if model == "adapter" {
            assert!(self.endpoint.adapters[0].is_on(replica), "the adapter is there");
        }
        let holders = self.endpoint.discovery.as_ref().and_then(|discovery| discovery.holders(model));
        assert!(holders.is_none_or(|holders| holders.contains(&replica.engine())), "and where it is listed");
        let Abilities { role, modalities, context_tokens_max } = replica.abilities;
        assert!(role == Role::Both && modalities.cover(facts.demands.modalities), "it can do what is wanted");
        assert!(context_tokens_max.is_none_or(|tokens| tokens >= facts.demands.tokens_min), "the prompt has room");
        let is_up = |candidate: &&Candidate| {
            let live = self.engine(candidate.choice());
            let tokens_max = variant.replicas[candidate.replica].abilities.context_tokens_max;
            let has_room = tokens_max.is_none_or(|tokens| tokens >= facts.demands.tokens_likely);
            candidate.is_eligible() && live.health() == Health::Up && !live.is_busy(self.now_us) && has_room
        };
        let verdicts = decision.candidates.iter().filter(is_up).map(|c| self.verdict(self.engine(c.choice())));
        let (mut well, mut failing) = (0, 0);
        for verdict in verdicts {
            well += usize::from(matches!(verdict, Verdict::Closed | Verdict::Trial { is_taken: false }));
            failing += usize::from(matches!(verdict, Verdict::Ejected { .. }));
        }
        let eligible = decision.candidates.iter().filter(|c| c.is_eligible()).count();
        let is_worse_left_out = well == eligible || (well + failing == eligible && failing > 3 * well);
        assert!(well == 0 || is_worse_left_out, "the merely worse off are candidates only among themselves");
        assert!(decision.captured_bytes <= decision.available_bytes);
        assert!(decision.available_bytes <= facts.prompt.text_bytes);

        let keyed = matches!(variant.routing.strategy, Strategy::PrefixAware | Strategy::Session);
        let eligible: Vec<usize> = (0..before.len()).filter(|&i| decision.candidates[i].is_eligible()).collect();
        if keyed && facts.component.is_none() && eligible.len() > 1 && decision.reason != Reason::NoPrefix {
            let threshold = variant.routing.prefix_aware.concurrency_threshold;
            let some_under = eligible.iter().any(|&i| before[i] < threshold);
            assert!(before[chosen.replica] < threshold || !some_under, "at its threshold while another is under it");
            assert_eq!(decision.reason == Reason::SpillSaturated, !some_under);
            let home = decision.home.expect("a key has a home");
            let highest = eligible
                .iter()
                .max_by(|&&a, &&b| decision.candidates[a].rendezvous.total_cmp(&decision.candidates[b].rendezvous));
            if decision.reason != Reason::Pinned {
                assert_eq!(Some(&home.replica), highest, "which is the eligible replica with the highest score");
            }
            assert_eq!(decision.reason.is_spill(), before[home.replica] >= threshold);
        }
        if variant.routing.strategy == Strategy::LeastOutstanding && facts.component.is_none() {
            let penalty = |i: usize| variant.replicas[i].live.breaker.standing(self.now_us).penalty;
            let relative = |i: usize| f64::from(before[i] + penalty(i) + 1) / variant.replicas[i].weight;
            assert!(eligible.iter().all(|&i| relative(chosen.replica) <= relative(i)), "the least outstanding");
        }
    }
}
