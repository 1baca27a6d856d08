//! `cargo bench -p kstore-benches --features simulation --bench simulation`: clusters under virtual time; the
//! library measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::simulation::main()
}
