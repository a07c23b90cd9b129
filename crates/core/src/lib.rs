//! Routing decisions: facts, prefix chain, fleet snapshot, strategies, loads. No sockets, no clock, no global randomness.
