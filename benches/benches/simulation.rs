//! `cargo bench -p kstore-benches --features simulation --bench simulation`: clusters under virtual time; the
//! library measures.

/// The allocator of the server's program: a cluster allocates much.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> anyhow::Result<()> {
    kstore_benches::simulation::main()
}
