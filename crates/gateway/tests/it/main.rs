//! The gateway's behaviour over real sockets: clients on one side, scripted engines on the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod body_limits;
mod broken_streams;
mod bytes_through;
mod disconnect_storm;
mod draining;
mod headers_through;
mod health;
mod in_flight;
mod metrics_page;
mod models;
mod native;
mod native_placement;
mod refusals;
mod reload;
mod streaming;
mod support;
mod threshold;
