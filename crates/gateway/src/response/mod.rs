//! Towards the client: the answer on its way, and what is learned from it.

pub(crate) mod body;
pub(crate) mod exchange;
mod observer;
mod patience;
pub(crate) mod relay;
