//! Towards the replicas: where they are, the connections to them, and the request bodies sent on those.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod target;
