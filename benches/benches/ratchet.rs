//! `cargo bench -p kstore-server -p kstore-benches --no-default-features --features kstore-benches/ratchet --bench
//! ratchet`: instructions of the main paths, each held to its accepted count; the library counts.

fn main() -> anyhow::Result<std::process::ExitCode> {
    kstore_benches::ratchet::main()
}
