//! R9: tests of how often the reflector sends requests, for all responses of the source.

use super::*;
use crate::Continue;
use crate::limits::{LONGEST_RETRY_AFTER, SOURCE_BACKOFF_BASE, SOURCE_BACKOFF_CAP, SOURCE_BACKOFF_RESET};
use kstore_nondet::Rng;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};

/// Response of a source.
#[derive(Clone, Debug)]
enum ServerReply {
    Good,
    /// A page with a continue token.
    More(u8),
    Old,
    End,
    Fail(SourceError),
}

fn server_reply() -> impl Strategy<Value = ServerReply> {
    let error = prop_oneof![
        4 => Just(SourceError::Expired),
        1 => Just(SourceError::Ahead { retry_after: None }),
        1 => Just(SourceError::Throttled { retry_after: None }),
        1 => Just(SourceError::Unreachable("down".into())),
        1 => Just(SourceError::Internal("oops".into())),
        1 => Just(SourceError::Fatal("forbidden".into())),
        1 => Just(SourceError::Unsupported(Capability::StreamingList)),
        1 => Just(SourceError::Unsupported(Capability::Paging)),
        1 => Just(SourceError::Unsupported(Capability::ExactList)),
    ];
    prop_oneof![
        2 => Just(ServerReply::Good),
        1 => (0u8..3).prop_map(ServerReply::More),
        1 => Just(ServerReply::Old),
        1 => Just(ServerReply::End),
        4 => error.prop_map(ServerReply::Fail),
    ]
}

/// The reflector's input after a response to `next` from a source at `revision`.
fn receive(next: &NextRequest, answer: ServerReply, revision: u64) -> Input {
    let old = revision.saturating_sub(5);
    match (next, answer) {
        (NextRequest::Wait(_), _) => Input::Waited,
        (NextRequest::List(_), ServerReply::Good | ServerReply::End) => Input::Listed(Ok(page(revision))),
        (NextRequest::List(_), ServerReply::Old) => Input::Listed(Ok(page(old))),
        (NextRequest::List(_), ServerReply::More(n)) => {
            Input::Listed(Ok(Page { next: Some(Continue::new(n.to_string())), ..page(revision) }))
        }
        (NextRequest::List(_), ServerReply::Fail(error)) => Input::Listed(Err(error)),
        (NextRequest::Watch(_), ServerReply::Fail(error)) => Input::Opened(Err(error)),
        (NextRequest::Watch(_), _) => Input::Opened(Ok(())),
        (NextRequest::Read, ServerReply::Good | ServerReply::More(_)) => {
            Input::Frames(Ok(vec![done(revision)]))
        }
        (NextRequest::Read, ServerReply::Old) => Input::Frames(Ok(vec![done(old)])),
        (NextRequest::Read, ServerReply::End) => Input::Ended,
        (NextRequest::Read, ServerReply::Fail(error)) => Input::Frames(Err(error)),
    }
}

/// Largest number of requests without a wait: a state, an unpaged list, the latest state, and a watch; again
/// for each of the two capabilities that a source may turn out to lack.
const MOST: usize = 4 * 3;

proptest! {
    /// R9: no responses cause a tight loop: after a few requests at one moment the reflector waits.
    #[test]
    fn requests_without_a_wait_are_bounded(
        answers in prop::collection::vec(server_reply(), 1..200), streaming in any::<bool>(), paging in any::<bool>()
    ) {
        let capabilities = Capabilities { streaming_list: streaming, paging, ..Capabilities::default() };
        let mut walk = ReflectorRun::able(&capabilities);
        let mut next = walk.step(Input::Begin).next;
        let (mut questions, mut waited) = (0, Duration::ZERO);
        for (revision, answer) in (10..).zip(answers) {
            match &next {
                // A further page is progress, and a circle of pages ends.
                NextRequest::List(list) if list.next.is_some() => {}
                NextRequest::List(_) | NextRequest::Watch(_) => questions += 1,
                NextRequest::Wait(wait) => {
                    prop_assert!(*wait >= SOURCE_BACKOFF_BASE && *wait <= SOURCE_BACKOFF_CAP * 2);
                    (waited, questions) = (*wait, 0);
                }
                NextRequest::Read => {}
            }
            prop_assert!(questions <= MOST, "asked {questions} times at one moment");
            walk.now += std::mem::take(&mut waited);
            let input = receive(&next, answer, revision);
            next = walk.step(input).next;
        }
    }
}

/// A list whose continue tokens repeat fails.
#[test]
fn a_repeated_continue_token_is_a_failure() {
    let mut walk = ReflectorRun::able(&Capabilities { paging: true, ..Capabilities::default() });
    walk.step(Input::Begin);
    let circle = || Page { next: Some(Continue::new("again")), ..page(5) };
    assert!(matches!(walk.step(Input::Listed(Ok(circle()))).next, NextRequest::List(_)));
    assert!(matches!(walk.step(Input::Listed(Ok(circle()))).next, NextRequest::Wait(_)));
}

/// R9: clients that lost one server together do not reconnect together.
#[test]
fn clients_with_different_seeds_reconnect_at_different_times() {
    let (start, outage) = (Instant::now(), Duration::from_secs(300));
    let mut back: Vec<Duration> = (0..100)
        .map(|seed| {
            let capabilities = Capabilities { streaming_list: true, ..Capabilities::default() };
            let mut reflector = Reflector::new(&capabilities, Rng::seeded(seed), None);
            let (mut now, mut input) = (start, Input::Begin);
            loop {
                input = match reflector.step(input, &|_| None, now).next {
                    NextRequest::Watch(_) if now - start > outage => return now - start,
                    NextRequest::Watch(_) => Input::Opened(Err(SourceError::Unreachable("down".into()))),
                    NextRequest::Wait(wait) => {
                        now += wait;
                        Input::Waited
                    }
                    other => panic!("{other:?}"),
                };
            }
        })
        .collect();
    back.sort();
    let together = |first: &Duration| {
        back.iter().filter(|other| *other >= first && **other - *first < Duration::from_millis(100)).count()
    };
    let most = back.iter().map(together).max();
    assert!(most < Some(6), "{most:?} of 100 within 100 ms");
    assert!(*back.last().unwrap() <= outage + SOURCE_BACKOFF_CAP * 2, "and no wait exceeds the cap");
}

/// R9: clients that got the same `Retry-After` do not retry at the same moment.
#[test]
fn retry_after_is_jittered() {
    let waits = (0..10).map(|seed| {
        let capabilities = Capabilities::default();
        let mut reflector = Reflector::new(&capabilities, Rng::seeded(seed), None);
        let throttled = SourceError::Throttled { retry_after: Some(Duration::from_secs(3)) };
        reflector.step(Input::Begin, &|_| None, Instant::now());
        match reflector.step(Input::Listed(Err(throttled)), &|_| None, Instant::now()).next {
            NextRequest::Wait(wait) if wait >= Duration::from_secs(3) => wait,
            other => panic!("{other:?}"),
        }
    });
    let different: std::collections::BTreeSet<Duration> = waits.collect();
    assert_eq!(different.len(), 10);
}

/// R9: growth, cap, jitter and reset of the back-off.
#[test]
fn source_back_off_doubles_to_the_cap_with_jitter_and_resets() {
    let mut walk = ReflectorRun::streaming();
    let unreachable = || Input::Opened(Err(SourceError::Unreachable("down".into())));
    for n in 0..20 {
        let least = SOURCE_BACKOFF_BASE.saturating_mul(1 << n.min(16)).min(SOURCE_BACKOFF_CAP);
        let (next, waited) = walk.after_wait(unreachable());
        assert_eq!(next, resume(10));
        assert!(waited >= least && waited <= least * 2, "attempt {n}: {waited:?}");
    }
    walk.now += SOURCE_BACKOFF_RESET * 2;
    let (_, waited) = walk.after_wait(unreachable());
    assert!(waited <= SOURCE_BACKOFF_BASE * 2);
}

/// The respected `Retry-After` is bounded.
#[test]
fn retry_after_is_bounded() {
    let mut walk = ReflectorRun::streaming();
    let retry_after = Some(Duration::from_secs(86_400));
    let (_, waited) = walk.after_wait(Input::Frames(Err(SourceError::Throttled { retry_after })));
    assert!(waited <= LONGEST_RETRY_AFTER + SOURCE_BACKOFF_BASE);
}

/// R2: pages of different revisions are not combined into one state.
#[test]
fn pages_of_two_revisions_restart_the_list_without_paging() {
    let mut walk = ReflectorRun::able(&Capabilities { paging: true, ..Capabilities::default() });
    walk.step(Input::Begin);
    walk.step(Input::Listed(Ok(Page { next: Some(Continue::new("2")), ..page(5) })));
    let step = walk.step(Input::Listed(Ok(page(6))));
    assert!(step.apply.is_empty());
    assert_eq!(step.next, list(ReadAt::Any));
    assert_eq!(walk.step(Input::Listed(Ok(page(6)))).next, resume(6));
}
