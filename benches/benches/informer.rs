//! `cargo bench -p kstore-benches --bench informer`: the informer beside kube-rs's reflector; the library
//! measures.

fn main() -> anyhow::Result<()> {
    kstore_benches::informer::main()
}
