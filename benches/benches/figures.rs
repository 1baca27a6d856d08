//! `cargo bench -p kstore-benches --bench figures`: measurements of the release binary; the library measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::main()
}
