//! The `kvroute` command.
fn main() {}
