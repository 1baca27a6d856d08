//! `cargo bench -p kstore-benches --bench cel`: evaluation and compilation of CEL; the library measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::cel::main()
}
