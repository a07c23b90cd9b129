//! The load loop against a scripted server on the loopback interface, and traces as users have them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod analysis;
mod calibration;
mod load_loop;
mod replay_traces;
mod server;
mod shared_traces;
mod trace_formats;
mod trace_reading;
mod trace_robust;
mod trace_writing;
