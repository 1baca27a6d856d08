//! The entry point of `kstore-server`.
fn main() {}
