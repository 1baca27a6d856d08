//! `cargo bench -p kstore-benches --bench gate`: the headline results, each with a bound; the library
//! measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::gate::main()
}
