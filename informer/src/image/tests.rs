//! Copies of informers that start with the states of an image.

use super::{CacheImage, CacheSet};
use crate::testing::{Call, FakeKind, FakeStore, Sample};
use crate::{Builder, Delta, Index, Informer, Key, Revision, Start};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn by_tag() -> Index<Sample, String> {
    Index::new(|sample: &Sample, emit: &mut dyn FnMut(String)| sample.tags.iter().cloned().for_each(emit))
}

fn samples() -> (FakeStore, FakeKind<Sample>) {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    for nth in 0..100 {
        kind.put(Sample::new("ns", &format!("s-{nth:03}")).tag(format!("tag-{}", nth % 10)));
    }
    (store, kind)
}

/// An informer with an index in a set.
fn start(kind: &FakeKind<Sample>, caches: &CacheSet) -> (Informer<Sample>, Index<Sample, String>) {
    let index = by_tag();
    let builder = Builder::new(kind.source()).name("samples").index(&index).caches(caches);
    (builder.spawn(&CancellationToken::new()), index)
}

async fn image_of(kind: &FakeKind<Sample>) -> CacheImage {
    let caches = CacheSet::default();
    let (informer, _) = start(kind, &caches);
    informer.synced().await.unwrap();
    caches.image()
}

fn shared(one: &Informer<Sample>, other: &[Arc<Sample>]) -> usize {
    one.list().iter().filter(|object| other.iter().any(|theirs| Arc::ptr_eq(theirs, object))).count()
}

#[tokio::test(start_paused = true)]
async fn an_image_of_caches_that_reached_the_source_leaves_nothing_to_read() {
    let (store, kind) = samples();
    let caches = CacheSet::default();
    let (original, _) = start(&kind, &caches);
    original.synced().await.unwrap();
    kind.put(Sample::new("ns", "s-000").tag("moved"));
    caches.reached(store.revision()).await;
    let copies = CacheSet::from_image(&caches.image(), store.revision());
    let (copy, _) = start(&kind, &copies);
    copy.synced().await.unwrap();
    assert_eq!(shared(&copy, &original.list()), 100);
}

/// R18, X5: a copy shares the objects and index entries of the image, and reads only what has changed since.
#[tokio::test(start_paused = true)]
async fn a_copy_shares_the_objects_of_its_image_and_reads_the_changes_since() {
    let (store, kind) = samples();
    let caches = CacheSet::default();
    let (original, theirs) = start(&kind, &caches);
    original.synced().await.unwrap();
    let (image, before) = (caches.image(), original.list());
    kind.put(Sample::new("ns", "s-000").tag("moved"));
    kind.delete(&Key::new("ns", "s-001")).unwrap();
    let source = kind.source();
    let (index, copies) = (by_tag(), CacheSet::from_image(&image, store.revision()));
    let copy = Builder::new(source.clone()).name("samples").index(&index).caches(&copies);
    let copy = copy.spawn(&CancellationToken::new());
    assert!(!copy.is_synced(), "the changes since the image are missing");
    assert_eq!(copy.list(), before, "and the state of the image is there");
    let mut reader = copy.subscribe();
    assert_eq!(reader.try_next().len(), 100);
    copy.synced().await.unwrap();
    assert!(matches!(&reader.next().await.unwrap()[..], [Delta::Updated { .. }, Delta::Deleted(_)]));
    assert_eq!(source.calls(), [Call::Watch(Start::After(Revision(100)))], "no list");
    assert_eq!((copy.list(), shared(&copy, &before)), (kind.list(), 98));
    assert_eq!((copy.by(&index, "moved").len(), copy.by(&index, "tag-1").len()), (1, 9));
    original.wait_for(store.revision()).await.unwrap();
    assert_eq!(original.by(&theirs, "moved"), copy.by(&index, "moved"));
}

/// X5: what one copy reads, neither the image nor another copy shows.
#[tokio::test(start_paused = true)]
async fn copies_of_one_image_do_not_change_each_other() {
    let (store, kind) = samples();
    let image = image_of(&kind).await;
    let at = store.revision();
    let (first, index) = start(&kind, &CacheSet::from_image(&image, at));
    for nth in 0..50 {
        kind.put(Sample::new("ns", &format!("s-{nth:03}")).tag("new"));
    }
    first.wait_for(store.revision()).await.unwrap();
    assert_eq!(first.by(&index, "new").len(), 50);
    let (second, index) = start(&kind, &CacheSet::from_image(&image, at));
    assert!(second.is_synced(), "its state is that of the image's source");
    assert_eq!((second.by(&index, "new").len(), second.by(&index, "tag-3").len()), (0, 10));
    second.wait_for(store.revision()).await.unwrap();
    assert_eq!(second.list(), first.list());
}

/// R18: without the history since the image, the copy lists at once, and still shares the objects that have not changed.
#[tokio::test(start_paused = true)]
async fn an_expired_image_is_followed_by_a_list_that_keeps_its_objects() {
    let (store, kind) = samples();
    let image = image_of(&kind).await;
    kind.put(Sample::new("ns", "s-000").tag("changed"));
    let before = kind.list_past(Revision(100));
    store.compact(store.revision());
    let begin = tokio::time::Instant::now();
    let (copy, _) = start(&kind, &CacheSet::from_image(&image, store.revision()));
    let held = copy.list();
    copy.synced().await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!((copy.list(), shared(&copy, &held)), (kind.list(), 99));
    assert_eq!(held, before);
}

/// R18: only an informer of the same name, type and indexes starts with a state, and each state is used once.
#[tokio::test(start_paused = true)]
async fn an_image_serves_each_of_its_informers_once() {
    let (store, kind) = samples();
    let image = image_of(&kind).await;
    let stop = CancellationToken::new();
    let copies = || CacheSet::from_image(&image, store.revision());
    let unlike = Builder::new(kind.source()).name("samples").caches(&copies()).spawn(&stop);
    assert_eq!(unlike.len(), 0, "without the index");
    let unlike = Builder::new(kind.source()).name("others").index(&by_tag()).caches(&copies()).spawn(&stop);
    assert_eq!(unlike.len(), 0, "of another name");
    let unlike = Builder::new(kind.source()).map(Arc::new).name("samples");
    let tags = Index::new(|_: &Arc<Sample>, _: &mut dyn FnMut(String)| {});
    assert_eq!(unlike.index(&tags).caches(&copies()).spawn(&stop).len(), 0, "of another type");
    let copies = copies();
    assert_eq!(start(&kind, &copies).0.len(), 100);
    assert_eq!(start(&kind, &copies).0.len(), 0, "it was restarted");
}

/// R18: an image has no state that could be another informer's, and none of a component that is starting.
#[tokio::test(start_paused = true)]
async fn an_image_has_only_unambiguous_and_complete_states() {
    let (store, kind) = samples();
    let caches = CacheSet::default();
    let first = start(&kind, &caches);
    assert!(caches.image().is_empty(), "it has no state yet");
    first.0.synced().await.unwrap();
    assert!(!caches.image().is_empty());
    let second = start(&kind, &caches);
    second.0.synced().await.unwrap();
    assert!(caches.image().is_empty(), "two informers have the name");
    // A copy whose informers have not started has their states all the same.
    let image = image_of(&kind).await;
    assert!(!CacheSet::from_image(&image, store.revision()).image().is_empty());
    drop((first, second));
}
