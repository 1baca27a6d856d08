//! `cargo bench -p kstore-benches --bench gate`: the headline results, held to their bounds. What is measured is in the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::gate::main()
}
