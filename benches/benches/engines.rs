//! `cargo bench -p kstore-benches --bench engines`: see the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::engines::main()
}
