//! `cargo bench -p kstore-benches --bench engines`: the store's two engines side by side; the library
//! measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::engines::main()
}
