//! The load loop against a scripted server on the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod load_loop;
mod server;
