//! Towards the replicas: where they are, the connections to them, the request bodies sent on those, and what retries
//! may cost.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod target;
