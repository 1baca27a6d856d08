//! The entry point of `cargo bench -p kstore-benches`. What is measured is in the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::main()
}
