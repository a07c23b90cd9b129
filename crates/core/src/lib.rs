//! Routing decisions, pure.
//!
//! Given what a request is ([`facts`]), what the fleet looks like ([`fleet`]) and a [`moment::Moment`] (time and
//! randomness as arguments), [`router::route`] says which replica gets the request and why ([`decision`]). There are
//! no sockets, no clock and no global randomness here, so the gateway, the simulator and the tests run the same lines
//! and a recorded run replays exactly.
//!
//! | module | holds |
//! |---|---|
//! | [`written`] | the form in which texts are hashed, looked for in bytes and counted |
//! | [`prompt`] | prompt text -> [`prompt::PrefixChain`] and prefix keys, while the text arrives |
//! | [`facts`] | everything about a request that routing may look at |
//! | [`routing`] | a variant's routing settings: strategy names, ranges, defaults |
//! | [`fleet`] | endpoints, variants, replicas, components, adapters: an immutable snapshot around shared counters |
//! | [`abilities`] | what a replica can do, and what a request demands beyond it being well |
//! | [`discovery`] | which engines have which adapter, as their model lists say |
//! | [`live`] | what is true of a replica whatever snapshot is in force: load, health, breaker, cache view |
//! | [`load`] | in-flight and pending-prefill counters and the guard that releases them exactly once |
//! | [`breaker`] | when a replica whose requests fail gets none, and how it comes back |
//! | [`cache`] | what a replica is believed to hold: the predicted cache view |
//! | [`filter`] | which replicas may serve a request, and why the others may not |
//! | [`strategy`] | one file a strategy: random, round_robin, least_outstanding, prefix_aware, session |
//! | [`decision`] | the answer: ordered choices, the reason, every candidate's score |
//! | [`router`] | facts + fleet + moment -> decision, with the load reserved in the same breath |
//! | [`rendezvous`], [`hash`] | seeded hashing that several gateways agree on |

pub mod abilities;
pub mod breaker;
pub mod cache;
pub mod decision;
pub mod discovery;
pub mod facts;
pub mod filter;
pub mod fleet;
pub mod hash;
pub mod live;
pub mod load;
mod memory;
pub mod moment;
pub mod prompt;
pub mod rendezvous;
pub mod router;
pub mod routing;
pub mod strategy;
pub mod written;
