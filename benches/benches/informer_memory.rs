//! `cargo bench -p kstore-benches --bench informer_memory`: see the library.

#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> anyhow::Result<()> {
    kstore_benches::informer::memory::main(&HEAP)
}
