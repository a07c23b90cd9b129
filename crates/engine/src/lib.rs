//! A model of an LLM engine, and a server that runs it behind vLLM's surface.
//!
//! - [`model`] is pure: virtual time in, events out. It runs in the simulator and in the server, so
//!   that what is measured in one holds in the other.
//! - [`vocab`] turns text into tokens and back.
//! - `server` (feature `server`) runs the model in real time with vLLM's HTTP routes, metric names
//!   and KV events, so that a fleet can be run without a GPU. Whatever is measured on it is
//!   *simulated*.

pub mod model;
#[cfg(feature = "server")]
pub mod server;
pub mod vocab;
