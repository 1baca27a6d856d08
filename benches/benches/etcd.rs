//! `cargo bench -p kstore-benches --bench etcd`: see the library.

fn main() -> anyhow::Result<()> {
    kstore_benches::etcd::main()
}
