//! Tests that search and reference checker agree on small histories, good ones and mutated ones.

use super::brute::is_linearizable;
use super::generate::{Setup, history};
use crate::evidence::Evidence;
use crate::history::{Call, History, OpReply, Outcome, Refusal, Reply};
use crate::judge;
use crate::linearize::linearize;
use kstore_nondet::Rng;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, prop_assert_eq, proptest};

/// Changes one call at random.
fn spoil(history: &mut History, rng: &Rng) {
    let len = history.calls.len() as u64;
    let other = history.calls[rng.below(len) as usize].clone();
    let call = &mut history.calls[rng.below(len) as usize];
    match rng.below(6) {
        0 => call.outcome = Outcome::Unknown,
        1 => shift(call, rng),
        2 => call.operation = other.operation,
        3 => call.outcome = Outcome::Failed(Refusal::LeaseNotFound),
        4 => (call.call, call.ret) = (other.call, other.ret),
        _ => forget(call),
    }
}

/// Changes the revision in the header.
fn shift(call: &mut Call, rng: &Rng) {
    let by = rng.below(3) as i64 - 1;
    if let Outcome::Ok(
        Reply::Txn { revision, .. } | Reply::LeaseGrant { revision, .. } | Reply::LeaseRevoke { revision },
    ) = &mut call.outcome
    {
        *revision += by;
    }
}

/// Removes a key from a read's reply.
fn forget(call: &mut Call) {
    if let Outcome::Ok(Reply::Range(reply)) = &mut call.outcome {
        reply.kvs.pop();
    } else if let Outcome::Ok(Reply::Txn { results, .. }) = &mut call.outcome
        && let Some(OpReply::Delete { deleted, .. }) = results.first_mut()
    {
        *deleted = 0;
    }
}

/// Whether the reference checker can judge the history: it handles neither other refusals nor replies of the wrong
/// kind.
fn is_judged(history: &History) -> bool {
    history.calls.iter().all(|call| !matches!(call.outcome, Outcome::Failed(Refusal::Other(_))))
}

fn search(history: &History) -> bool {
    linearize(history, &Evidence::default(), 1_000_000).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_search_agrees_with_the_reference_checker(
        seed in any::<u64>(), calls in 2_usize..9, unknown in 0_u64..50, spoiled in 0_usize..3,
    ) {
        let mut history = history(Setup { seed, clients: 4, calls, keys: 2, unknown, watches: 0 });
        let rng = Rng::seeded(seed ^ 1);
        for _ in 0..spoiled {
            spoil(&mut history, &rng);
        }
        if is_judged(&history) && mixed_up(&history).is_none() {
            prop_assert_eq!(search(&history), is_linearizable(&history), "{:#?}", history.calls);
        }
    }

    #[test]
    fn good_histories_with_unknown_outcomes_pass(
        seed in any::<u64>(), calls in 20_usize..200, keys in 2_u64..5, unknown in 0_u64..60, watches in 0_u32..4,
    ) {
        let mut history = history(Setup { seed, clients: 4, calls, keys, unknown, watches: watches + 1 });
        // The first watch receives everything; without it, the search must guess more.
        history.watches.remove(0);
        let verdict = judge(&history);
        prop_assert!(verdict.violations.is_empty(), "{}", verdict);
        // With half of the outcomes unknown and no watch, the search may give up, and reports that.
        prop_assert!(!verdict.undecided || unknown > 30, "{}", verdict);
    }
}

/// Regression: the reply to LeaseRevoke does not name the deleted keys. The search attached a watched key to a
/// revocation, and the checker reported that the watch had missed the deletion.
#[test]
fn a_revocation_deletes_no_key_whose_deletion_a_watch_would_have_received() {
    let setup =
        Setup { seed: 10_471_607_183_096_164_544, clients: 4, calls: 163, keys: 2, unknown: 53, watches: 4 };
    let mut history = history(setup);
    history.watches.remove(0);
    let verdict = judge(&history);
    assert!(verdict.violations.is_empty(), "{verdict}");
}

/// A call whose reply is of another kind than its operation.
fn mixed_up(history: &History) -> Option<&Call> {
    use crate::history::Operation as O;
    history.calls.iter().find(|call| {
        let Outcome::Ok(reply) = &call.outcome else { return false };
        !matches!(
            (&call.operation, reply),
            (O::Range(_), Reply::Range(_))
                | (O::Txn(_), Reply::Txn { .. })
                | (O::LeaseGrant { .. }, Reply::LeaseGrant { .. })
                | (O::LeaseRevoke { .. }, Reply::LeaseRevoke { .. })
                | (O::LeaseKeepAlive { .. }, Reply::LeaseKeepAlive { .. })
                | (O::Compact { .. }, Reply::Compact { .. })
                | (O::Defragment, Reply::Defragment)
        )
    })
}
