//! `cargo bench -p kstore-benches --bench informer_memory`: memory of the informer's cache; the library
//! measures.

#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> anyhow::Result<()> {
    kstore_benches::informer::memory::main(&HEAP)
}
