//! Tests of a shared stream against a fake server under paused time: random ones, and single cases.

mod fake;

use super::{MultiSource, SourcePart};
use crate::limits::{IN_PROCESS_PROGRESS, MULTI_BUFFER};
use crate::{DynamicObject, Gvr, WatchParams};
use fake::Fake;
use futures::StreamExt;
use kstore_informer::{
    Builder, Frame, Frames, Informer, ListerWatcher, Object, ReadAt, Revision, SourceError, Start,
};
use kstore_nondet::Rng;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const INITIAL: Start = Start::Initial(ReadAt::Latest);

fn part(multi: &MultiSource, kind: &'static str) -> SourcePart<DynamicObject> {
    multi.part(multi.client.dynamic(Gvr::new("", "v1", kind)).source(WatchParams::default()))
}

fn after(revision: i64) -> Start {
    Start::After(Revision(revision.try_into().unwrap()))
}

async fn next(frames: &mut Frames<DynamicObject>) -> String {
    match timeout(Duration::from_secs(600), frames.next()).await.expect("something comes") {
        None => "end".into(),
        Some(Err(error)) => format!("{error:?}"),
        Some(Ok(frames)) => frames.iter().map(frame).collect::<Vec<_>>().join(" "),
    }
}

fn frame(frame: &Frame<DynamicObject>) -> String {
    match frame {
        Frame::Put(object) => format!("+{}@{}", object.key(), object.revision()),
        Frame::Gone { key, revision, .. } => format!("-{key}@{revision}"),
        Frame::Undecodable(what) => format!("!{}", what.key),
        Frame::Progress { revision, initial_done } => {
            format!("{revision}{}", if *initial_done { "!" } else { "" })
        }
    }
}

fn is_true(cache: &Informer<DynamicObject>, kind: &str, fake: &Fake) {
    if !cache.is_synced() {
        return;
    }
    let view = cache.view();
    let at = i64::try_from(view.revision().0).unwrap();
    let shown: Vec<_> = view
        .iter()
        .map(|object| (object.key().name().to_owned(), i64::try_from(object.revision().0).unwrap()))
        .collect();
    assert_eq!(shown, fake.at(kind, at), "{kind} at {at}");
}

/// R1 and R2 for several caches on one stream: with any failure, each shows the true state of its revision,
/// and in the end all show the newest. At most one stream is open at any time.
#[tokio::test(start_paused = true)]
async fn caches_on_one_stream_are_consistent_at_every_revision_and_converge() {
    for seed in 0..60 {
        let rng = Rng::seeded(seed);
        let (fake, stop) = (Fake::flaky(rng.fork("fake")), CancellationToken::new());
        let multi = fake.client().multi();
        let kinds = ["a", "b", "c", "d"];
        let mut caches: Vec<_> = kinds
            .iter()
            .map(|kind| Builder::new(part(&multi, kind)).name(kind).rng(&rng).spawn(&stop))
            .collect();
        for step in 0..60 {
            let kind = kinds[usize::try_from(rng.below(3)).unwrap()];
            match rng.below(12) {
                0 => fake.cut(),
                1 => fake.compact(),
                2 => sleep(Duration::from_millis(rng.below(3_000))).await,
                _ => drop(fake.write(kind, &rng.below(5).to_string(), rng.below(4) == 0)),
            }
            if step == 40 {
                caches.pop();
            }
            if rng.below(3) == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            if rng.below(4) == 0 {
                // No wake-up is lost: a wait for a written revision ends, in caches with and without changes.
                let revision = Revision(fake.revision().try_into().unwrap());
                for cache in &caches {
                    let reached = timeout(Duration::from_secs(3_600), cache.wait_for(revision));
                    reached.await.unwrap_or_else(|_| panic!("seed {seed}: {revision}")).unwrap();
                    assert!(cache.revision() >= revision);
                }
            }
            assert!(fake.open() <= 1, "seed {seed}");
            caches.iter().zip(kinds).for_each(|(cache, kind)| is_true(cache, kind, &fake));
        }
        fake.stop_failing();
        let newest = fake.write("a", "last", false);
        for (cache, kind) in caches.iter().zip(kinds) {
            let reached = cache.wait_for(Revision(newest.try_into().unwrap()));
            timeout(Duration::from_secs(3_600), reached).await.expect("all catch up").unwrap();
            is_true(cache, kind, &fake);
        }
        drop(caches);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(fake.open(), 0, "the stream ends with its last part, seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_part_receives_every_demanded_revision() {
    let fake = Fake::reliable();
    fake.write("a", "x", false);
    let multi = fake.client().multi();
    let (part_a, part_b) = (part(&multi, "a"), part(&multi, "b"));
    part_b.demand(Revision(2));
    let (a, b) = futures::future::join(part_a.watch(INITIAL), part_b.watch(INITIAL)).await;
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    assert_eq!((next(&mut a).await.as_str(), next(&mut b).await.as_str()), ("+x@1 1!", "1!"));
    fake.write("a", "y", false);
    assert_eq!((next(&mut a).await.as_str(), next(&mut b).await.as_str()), ("+y@2 2", "2"));
    fake.write("b", "z", false);
    fake.write("b", "z", true);
    part_a.demand(Revision(4));
    assert_eq!((next(&mut a).await.as_str(), next(&mut b).await.as_str()), ("4", "+z@3 -z@4 4"));
    assert_eq!(fake.requests(), [(2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_part_without_changes_wakes_on_demand_before_its_next_change_or_after_the_longest_delay() {
    let fake = Fake::reliable();
    let multi = fake.client().multi();
    let (part_a, part_b) = (part(&multi, "a"), part(&multi, "b"));
    let (a, b) = futures::future::join(part_a.watch(INITIAL), part_b.watch(INITIAL)).await;
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    assert_eq!((next(&mut a).await.as_str(), next(&mut b).await.as_str()), ("0!", "0!"));
    let is_idle =
        async |b: &mut Frames<DynamicObject>| timeout(Duration::from_secs(1), b.next()).await.is_err();
    for revision in 1..=3 {
        fake.write("a", "x", false);
        assert_eq!(next(&mut a).await, format!("+x@{revision} {revision}"));
        assert!(is_idle(&mut b).await, "another part's change wakes it");
    }
    part_b.demand(Revision(2));
    assert_eq!(next(&mut b).await, "3", "progress that was held back is delivered at once");
    fake.write("a", "x", false);
    part_b.demand(Revision(3));
    assert!(is_idle(&mut b).await, "the demanded revision is delivered already");
    fake.write("b", "y", false);
    assert_eq!(next(&mut b).await, "+y@5 5", "a change brings the progress before it");
    fake.write("a", "x", false);
    assert!(is_idle(&mut b).await);
    sleep(IN_PROCESS_PROGRESS).await;
    fake.write("a", "x", false);
    assert_eq!(next(&mut b).await, "7", "the delay has a bound");
    fake.write("a", "x", false);
    assert!(is_idle(&mut b).await);
    fake.cut();
    assert_eq!(next(&mut b).await, "8", "the end of the stream loses no progress");
    assert_eq!(next(&mut b).await, "end");
}

#[tokio::test(start_paused = true)]
async fn parts_resume_from_their_oldest_revision_without_duplicates() {
    let fake = Fake::reliable();
    for name in ["1", "2", "3", "4"] {
        fake.write("a", name, false);
        fake.write("b", name, false);
    }
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let (a, b) = futures::future::join(a.watch(after(6)), b.watch(after(4))).await;
    assert_eq!(next(&mut a.unwrap()).await, "+4@7 8");
    assert_eq!(next(&mut b.unwrap()).await, "+3@6 +4@8 8");
    assert_eq!(fake.requests(), [(2, 4)]);
}

#[tokio::test(start_paused = true)]
async fn all_parts_relist_when_one_needs_the_full_state() {
    let fake = Fake::reliable();
    fake.write("a", "x", false);
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let again = async {
        assert_eq!(a.watch(after(1)).await.err(), Some(SourceError::Expired));
        a.watch(INITIAL).await.unwrap()
    };
    let (mut frames, other) = futures::future::join(again, b.watch(INITIAL)).await;
    assert_eq!(next(&mut frames).await, "+x@1 1!");
    assert_eq!(next(&mut other.unwrap()).await, "1!");
    assert_eq!(fake.requests(), [(2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_new_request_or_a_new_part_restarts_the_stream_for_all() {
    let fake = Fake::reliable();
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let (first, other) = futures::future::join(a.watch(INITIAL), b.watch(INITIAL)).await;
    let (_first, mut other) = (first.unwrap(), other.unwrap());
    assert_eq!(next(&mut other).await, "0!");
    let resumed = async {
        assert_eq!(next(&mut other).await, "end");
        b.watch(after(0)).await.unwrap()
    };
    let (first, mut other) = futures::future::join(a.watch(after(0)), resumed).await;
    let mut first = first.unwrap();
    fake.write("c", "x", false);
    let c = part(&multi, "c");
    let late = async { c.watch(INITIAL).await.unwrap() };
    let rest = async {
        while next(&mut first).await != "end" {}
        while next(&mut other).await != "end" {}
        assert_eq!(a.watch(after(1)).await.err(), Some(SourceError::Expired));
        assert_eq!(b.watch(after(1)).await.err(), Some(SourceError::Expired));
    };
    let again = async {
        rest.await;
        futures::future::join(a.watch(INITIAL), b.watch(INITIAL)).await
    };
    // All three wait for each other; none waits forever, and all get the state again.
    let all = timeout(Duration::from_secs(60), futures::future::join(late, again)).await;
    let (mut late, (first, other)) = all.unwrap();
    for frames in [&mut late, &mut first.unwrap(), &mut other.unwrap()] {
        let mut delivered = next(frames).await;
        while !delivered.ends_with('!') {
            delivered = next(frames).await;
        }
    }
    assert_eq!(fake.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_part_delays_the_others_with_bounded_memory_and_without_loss() {
    let fake = Fake::reliable();
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let (a, b) = futures::future::join(a.watch(INITIAL), b.watch(INITIAL)).await;
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    for _ in 0..=MULTI_BUFFER {
        fake.write("a", "x", false);
        sleep(Duration::from_millis(1)).await;
    }
    fake.write("b", "y", false);
    while let Ok(Some(_)) = timeout(Duration::from_secs(1), b.next()).await {}
    let delivered = a.next().await.unwrap().unwrap();
    assert!(delivered.len() <= MULTI_BUFFER + 2, "{}", delivered.len());
    let mut last = next(&mut b).await;
    while !last.contains("+y") {
        last = next(&mut b).await;
    }
    assert_eq!(next(&mut a).await, format!("+x@{} {}", MULTI_BUFFER + 1, MULTI_BUFFER + 2));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_part_does_not_block_the_stream_before_or_after_it_opens() {
    let fake = Fake::reliable();
    let multi = fake.client().multi();
    let (a, b, c) = (part(&multi, "a"), part(&multi, "b"), part(&multi, "c"));
    let asking = tokio::spawn(async move {
        let (a, b) = futures::future::join(a.watch(INITIAL), b.watch(INITIAL)).await;
        (a.unwrap(), b.unwrap())
    });
    sleep(Duration::from_secs(1)).await;
    assert!(fake.requests().is_empty(), "all are waited for");
    drop(c);
    let (mut a, b) = asking.await.unwrap();
    assert_eq!((next(&mut a).await.as_str(), fake.requests()), ("0!", vec![(2, 0)]));
    drop((a, b));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_watch_call_has_no_effect() {
    let fake = Fake::reliable();
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let _ = timeout(Duration::from_millis(1), a.watch(INITIAL)).await;
    let waiting = timeout(Duration::from_secs(1), b.watch(INITIAL)).await;
    assert!(waiting.is_err(), "the first no longer asks");
    let (first, other) = futures::future::join(a.watch(INITIAL), b.watch(INITIAL)).await;
    drop(first);
    // A stream without a reader delays no other.
    let mut other = other.unwrap();
    for _ in 0..2 * MULTI_BUFFER {
        fake.write("a", "x", false);
    }
    fake.write("b", "y", false);
    while !next(&mut other).await.contains("+y") {}
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_stream_for_all_parts() {
    let fake = Fake::reliable();
    for _ in 0..5 {
        fake.write("a", "x", false);
    }
    fake.compact();
    let multi = fake.client().multi();
    let (a, b) = (part(&multi, "a"), part(&multi, "b"));
    let (a, b) = futures::future::join(a.watch(after(2)), b.watch(after(5))).await;
    assert_eq!((a.err(), b.err()), (Some(SourceError::Expired), Some(SourceError::Expired)));
}
