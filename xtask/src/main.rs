//! One word for each habit of this repository.
fn main() {}
