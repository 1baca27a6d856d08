//! Memory that caches use besides the objects, and the peak of a relist. A separate program, since counting
//! allocations takes time.

use super::OBJECTS;
use super::corpus::{self, Generated, Pod, Slim};
use super::kube::KubeRsCache;
use super::ours::{KstoreCache, initial_frames};
use peak_alloc::PeakAlloc;
use std::hint::black_box;
use std::sync::Arc;

/// Measures and prints a table in Markdown. `heap` is the allocator of this program.
///
/// # Errors
///
/// A side fails a measurement.
pub fn main(heap: &PeakAlloc) -> anyhow::Result<()> {
    println!("{OBJECTS} objects, one index of 100 values, one subscriber that has read everything\n");
    println!("| what | bytes per object |\n|---|---|");
    ours::<Pod>(heap, "Pod")?;
    ours::<Slim>(heap, "projected Pod")?;
    theirs(heap);
    relist_ours(heap)?;
    relist_theirs(heap);
    subscribers(heap)
}

fn row(what: &str, bytes: usize) {
    println!("| {what} | {:.0} |", bytes as f64 / OBJECTS as f64);
}

/// The growth of the heap by `make`, and the result of `make`.
fn grown<R>(heap: &PeakAlloc, make: impl FnOnce() -> R) -> (usize, R) {
    let before = heap.current_usage();
    let made = make();
    (heap.current_usage().saturating_sub(before), made)
}

/// Bytes of the objects alone, as a decoder creates them, in one vector.
fn objects<T>(heap: &PeakAlloc, make: impl Fn(usize) -> T) -> usize {
    let (bytes, all) = grown(heap, || (0..OBJECTS).map(make).collect::<Vec<T>>());
    drop(black_box(all));
    bytes
}

fn ours<T: Generated>(heap: &PeakAlloc, name: &str) -> anyhow::Result<()> {
    let alone = objects(heap, |number| T::generate(number, 1));
    row(&format!("{name}: the object, with its key"), alone);
    let (cached, ours) = grown(heap, || KstoreCache::<T>::full(OBJECTS));
    drop(ours?);
    row(&format!("{name}: cached by us, over that"), cached.saturating_sub(alone));
    Ok(())
}

fn theirs(heap: &PeakAlloc) {
    let alone = objects(heap, |number| corpus::kube_pod(number, 1));
    row("k8s-openapi Pod alone", alone);
    let (cached, theirs) = grown(heap, || KubeRsCache::full(OBJECTS));
    row("k8s-openapi Pod: cached by kube-rs, over that", cached.saturating_sub(alone));
    drop(theirs);
}

fn relist_ours(heap: &PeakAlloc) -> anyhow::Result<()> {
    let mut ours = KstoreCache::<Pod>::empty(2)?;
    ours.load(initial_frames(OBJECTS), OBJECTS)?;
    let before = heap.current_usage();
    heap.reset_peak_usage();
    let delivered = ours.relist(initial_frames(OBJECTS))?;
    anyhow::ensure!(delivered == 0, "unchanged objects cause no events");
    row("relist without changes: peak over the cache, ours", heap.peak_usage().saturating_sub(before));
    Ok(())
}

fn relist_theirs(heap: &PeakAlloc) {
    let mut theirs = KubeRsCache::full(OBJECTS);
    let before = heap.current_usage();
    heap.reset_peak_usage();
    theirs.relist();
    row("relist without changes: peak over the cache, kube-rs", heap.peak_usage().saturating_sub(before));
}

/// Bytes for a thousand subscribers that read nothing while everything changes.
fn subscribers(heap: &PeakAlloc) -> anyhow::Result<()> {
    let mut ours = KstoreCache::<Slim>::full(OBJECTS)?;
    let one = ours.informer.subscribe();
    let bytes = |ours: &mut KstoreCache<Slim>| {
        let changes = ours.changes(OBJECTS);
        let before = heap.current_usage();
        ours.feed(changes, |_, subscription| drop(subscription.try_next()))?;
        anyhow::Ok(heap.current_usage().saturating_sub(before))
    };
    let (mut stuck, first) = (vec![one], bytes(&mut ours)?);
    println!(
        "| growth with 1 subscriber that has not read, everything changed | {:.0} |",
        first as f64 / OBJECTS as f64
    );
    stuck.extend((0..999).map(|_| ours.informer.subscribe()));
    stuck.iter_mut().take(1_000).for_each(|subscription| drop(subscription.try_next()));
    let all = bytes(&mut ours)?;
    println!(
        "| growth with 1000 stuck subscribers, everything changed | {:.0} |",
        all as f64 / OBJECTS as f64
    );
    drop(Arc::new(stuck));
    Ok(())
}
