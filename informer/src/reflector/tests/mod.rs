//! Tests of the reflector's decisions, step by step, without a source. `properties` runs random histories
//! with a source, `pace` checks request rates, `rivals` has regressions from other informers.

mod pace;
mod properties;
mod rivals;

use super::*;
use crate::Key;
use crate::limits::SOURCE_BACKOFF_BASE;
use crate::testing::{Sample, Stored};
use std::sync::Arc;

/// Runs a future on a runtime with paused time.
fn paused<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
}

/// A reflector with a manual clock that skips its waits.
struct ReflectorRun {
    reflector: Reflector,
    now: Instant,
}

impl ReflectorRun {
    fn new(streaming: bool) -> Self {
        Self::able(&Capabilities { streaming_list: streaming, ..Capabilities::default() })
    }

    fn able(capabilities: &Capabilities) -> Self {
        Self { reflector: Reflector::new(capabilities, Rng::seeded(1), None), now: Instant::now() }
    }

    fn step(&mut self, input: Input) -> ReflectorStep {
        self.reflector.step(input, &|_| None, self.now)
    }

    /// The next request that is not a wait, and the time waited.
    fn after_wait(&mut self, input: Input) -> (NextRequest, Duration) {
        let (mut next, mut waited) = (self.step(input).next, Duration::ZERO);
        while let NextRequest::Wait(time) = next {
            waited += time;
            self.now += time;
            next = self.step(Input::Waited).next;
        }
        (next, waited)
    }

    /// A reflector that streams from an initial state at revision 10.
    fn streaming() -> Self {
        let mut walk = Self::new(true);
        assert_eq!(walk.step(Input::Begin).next, LATEST);
        assert_eq!(walk.step(Input::Opened(Ok(()))).next, NextRequest::Read);
        let step = walk.step(Input::Frames(Ok(vec![put("a", 4), done(10)])));
        assert!(matches!(step.apply.as_slice(), [CacheUpdate::Replace(whole)] if whole.objects.len() == 1));
        walk
    }
}

fn put(name: &str, revision: u64) -> Frame<SharedObject> {
    let mut sample = Sample::new("", name);
    sample.stamp(name, Revision(revision));
    Frame::Put(Arc::new(sample))
}

fn done(revision: u64) -> Frame<SharedObject> {
    Frame::Progress { revision: Revision(revision), initial_done: true }
}

fn resume(revision: u64) -> NextRequest {
    NextRequest::Watch(Start::After(Revision(revision)))
}

const LATEST: NextRequest = NextRequest::Watch(Start::Initial(ReadAt::Latest));

/// A streaming list not older than `revision`.
fn again(revision: u64) -> NextRequest {
    NextRequest::Watch(Start::Initial(ReadAt::NotOlderThan(Revision(revision))))
}

/// An unpaged list.
fn list(at: ReadAt) -> NextRequest {
    NextRequest::List(ListRequest::all(at))
}

fn page(revision: u64) -> Page<SharedObject> {
    Page { items: vec![], undecodable: vec![], revision: Revision(revision), next: None }
}

#[test]
fn each_watch_failure_has_one_reaction() {
    let cases = [
        (SourceError::Expired, again(12), true),
        (SourceError::Ahead { retry_after: None }, again(12), true),
        (SourceError::Throttled { retry_after: None }, resume(12), true),
        (SourceError::Unreachable("gone".into()), resume(12), true),
        (SourceError::Internal("oops".into()), resume(12), true),
        (SourceError::Fatal("forbidden".into()), again(12), true),
    ];
    for (error, expected, waits) in cases {
        let mut walk = ReflectorRun::streaming();
        walk.step(Input::Frames(Ok(vec![put("b", 12)])));
        let (next, waited) = walk.after_wait(Input::Frames(Err(error.clone())));
        assert_eq!((next, waited > Duration::ZERO), (expected, waits), "{error}");
    }
}

#[test]
fn retry_after_of_a_source_is_respected() {
    let mut walk = ReflectorRun::streaming();
    let retry_after = Some(Duration::from_secs(7));
    let step = walk.step(Input::Frames(Err(SourceError::Throttled { retry_after })));
    let NextRequest::Wait(wait) = step.next else { panic!("{:?}", step.next) };
    assert!(wait >= Duration::from_secs(7) && wait < Duration::from_secs(7) + SOURCE_BACKOFF_BASE);
}

#[test]
fn a_long_watch_is_reopened_at_once_and_a_short_one_after_back_off() {
    let mut walk = ReflectorRun::streaming();
    let (next, waited) = walk.after_wait(Input::Ended);
    assert_eq!(next, resume(10));
    assert!(waited > Duration::ZERO);
    let mut walk = ReflectorRun::streaming();
    walk.now += SHORT_STREAM;
    assert_eq!(walk.after_wait(Input::Ended), (resume(10), Duration::ZERO));
    let mut walk = ReflectorRun::streaming();
    assert_eq!(walk.after_wait(Input::Silent).0, resume(10), "a dead connection is opened again");
}

#[test]
fn a_broken_initial_state_has_no_effect() {
    let mut walk = ReflectorRun::new(true);
    walk.step(Input::Begin);
    walk.step(Input::Opened(Ok(())));
    assert!(walk.step(Input::Frames(Ok(vec![put("ghost", 3)]))).apply.is_empty());
    let (next, _) = walk.after_wait(Input::Frames(Err(SourceError::Unreachable("cut".into()))));
    assert_eq!(next, LATEST);
    walk.step(Input::Opened(Ok(())));
    let step = walk.step(Input::Frames(Ok(vec![put("a", 4), done(5), put("b", 6)])));
    let [CacheUpdate::Replace(whole), CacheUpdate::Frames(rest)] = step.apply.as_slice() else {
        panic!("the state, then what followed it in one message");
    };
    assert!(whole.objects.iter().map(|(key, _)| key).eq(&[Key::new("", "a")]));
    assert_eq!(rest.len(), 1);
    assert_eq!(walk.after_wait(Input::Ended).0, resume(6));
}

#[test]
fn a_source_without_streaming_lists_is_listed_from_then_on() {
    let mut walk = ReflectorRun::new(true);
    walk.step(Input::Begin);
    let unsupported = SourceError::Unsupported(Capability::StreamingList);
    assert_eq!(walk.step(Input::Opened(Err(unsupported))).next, list(ReadAt::Any));
    assert_eq!(walk.step(Input::Listed(Ok(page(8)))).next, resume(8));
    walk.step(Input::Opened(Ok(())));
    let (next, waited) = walk.after_wait(Input::Frames(Err(SourceError::Expired)));
    assert_eq!(next, list(ReadAt::NotOlderThan(Revision(8))), "not older than what is known");
    assert!(waited > Duration::ZERO, "all who lost their history at once do not ask at once");
    let (next, _) = walk.after_wait(Input::Listed(Ok(page(7))));
    assert_eq!(next, list(ReadAt::Latest), "an older state is refused");
}

#[test]
fn persistent_internal_errors_cause_a_relist() {
    let mut walk = ReflectorRun::streaming();
    let start = walk.now;
    let internal = || Input::Opened(Err(SourceError::Internal("oops".into())));
    while walk.after_wait(internal()).0 == resume(10) {
        assert!(walk.now - start < Duration::from_secs(120));
    }
    assert!(walk.now - start > INTERNAL_ERRORS_BEFORE_RELIST);
}

/// R12 and the table of the module: the request after a refused relist.
#[test]
fn the_latest_state_is_requested_only_after_a_refusal() {
    let mut walk = ReflectorRun::streaming();
    assert_eq!(walk.after_wait(Input::Frames(Err(SourceError::Expired))).0, again(10));
    let (next, waited) = walk.after_wait(Input::Opened(Err(SourceError::Expired)));
    assert_eq!((next, waited), (LATEST, Duration::ZERO), "at once, and dearer");
    let (next, waited) = walk.after_wait(Input::Opened(Err(SourceError::Expired)));
    assert_eq!(next, LATEST);
    assert!(waited > Duration::ZERO, "a server that forgets at once is not asked in a tight loop");
    walk.step(Input::Opened(Ok(())));
    walk.step(Input::Frames(Ok(vec![done(11)])));
    assert_eq!(walk.after_wait(Input::Frames(Err(SourceError::Expired))).0, again(11));
    let ahead = || SourceError::Ahead { retry_after: None };
    let (next, waited) = walk.after_wait(Input::Opened(Err(ahead())));
    assert_eq!(next, LATEST);
    assert!(waited > Duration::ZERO, "a source that is behind is given time");
}

/// Unsupported capabilities are disabled one by one, at once.
#[test]
fn unsupported_capabilities_are_not_requested_again() {
    let capabilities = Capabilities { streaming_list: true, paging: true, ..Capabilities::default() };
    let mut walk = ReflectorRun::able(&capabilities);
    assert_eq!(walk.step(Input::Begin).next, LATEST);
    let no = |what| SourceError::Unsupported(what);
    let next = walk.step(Input::Opened(Err(no(Capability::StreamingList)))).next;
    assert_eq!(next, NextRequest::List(ListRequest { at: ReadAt::Any, limit: Some(LIST_PAGE), next: None }));
    let next = walk.step(Input::Listed(Err(no(Capability::Paging)))).next;
    assert_eq!(next, list(ReadAt::Any));
    assert!(
        matches!(walk.step(Input::Listed(Err(no(Capability::Paging)))).next, NextRequest::Wait(_)),
        "no tight loop"
    );
}

/// R16: the newest revision may be incomplete unless a higher one or a progress frame follows.
#[test]
fn a_source_that_splits_revisions_resumes_after_the_newest_complete_one() {
    let resumed_after = |splits_revisions, items: &[&[Frame<SharedObject>]]| {
        let mut walk = ReflectorRun::able(&Capabilities {
            streaming_list: true,
            splits_revisions,
            ..Capabilities::default()
        });
        walk.step(Input::Begin);
        walk.step(Input::Opened(Ok(())));
        walk.step(Input::Frames(Ok(vec![put("a", 4), done(10)])));
        for item in items {
            let item = item.iter().map(|frame| match frame {
                Frame::Put(object) => put(object.key().name(), object.revision().0),
                other => Frame::Progress { revision: other.revision(), initial_done: false },
            });
            walk.step(Input::Frames(Ok(item.collect())));
        }
        match walk.after_wait(Input::Frames(Err(SourceError::Unreachable("cut".into())))).0 {
            NextRequest::Watch(Start::After(revision)) => revision.0,
            other => panic!("{other:?}"),
        }
    };
    let progress = |revision| Frame::Progress { revision: Revision(revision), initial_done: false };
    assert_eq!(
        resumed_after(false, &[&[put("a", 12)]]),
        12,
        "a source that does not split is taken at its word"
    );
    assert_eq!(resumed_after(true, &[]), 10);
    assert_eq!(resumed_after(true, &[&[put("a", 12)], &[put("b", 12)]]), 10);
    assert_eq!(resumed_after(true, &[&[put("a", 12)], &[put("b", 12), put("c", 13)]]), 12);
    assert_eq!(resumed_after(true, &[&[put("a", 12), put("b", 13)], &[put("c", 14)]]), 13);
    assert_eq!(resumed_after(true, &[&[put("a", 12), progress(12)]]), 12);
    assert_eq!(
        resumed_after(true, &[&[put("a", 12)], &[progress(11)]]),
        11,
        "a bookmark of the past completes no more"
    );
}
