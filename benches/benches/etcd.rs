//! `cargo bench -p kstore-benches --bench etcd`: the store beside a real etcd; the library measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::etcd::main()
}
