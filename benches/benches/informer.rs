//! `cargo bench -p kstore-benches --bench informer`: see the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::informer::main()
}
