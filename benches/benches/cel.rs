//! `cargo bench -p kstore-benches --bench cel`: see the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::cel::main()
}
