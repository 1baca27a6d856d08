//! Mutation tests: one thing in a good history is made wrong, and the checker must name it.

use super::generate::{Setup, history, is_put};
use crate::history::{
    Call, Event, History, KeyValue, Keys, Op, OpReply, Operation, Outcome, Range, RangeReply, Reply, Txn,
    Watch, WatchContent,
};
use crate::{Guarantee, judge};
use kstore_nondet::Rng;

/// Mutates a history, if it has something to mutate.
type Mutate = fn(&mut History, &Rng) -> Option<()>;

#[test]
fn good_histories_pass() {
    for seed in 0..60 {
        let verdict = judge(&history(Setup::small(seed)));
        assert!(verdict.is_good(), "seed {seed}: {verdict}");
        assert!(verdict.counts.unknown_done <= verdict.counts.unknown);
    }
}

#[test]
fn every_mutation_is_detected_and_named() {
    let mutants: [(&str, Guarantee, Mutate); 17] = [
        ("an event is dropped", Guarantee::Reliable, drop_event),
        ("the first revision is dropped", Guarantee::Resumable, drop_first),
        (
            "the last events before a progress response are dropped",
            Guarantee::Bookmarkable,
            drop_before_progress,
        ),
        ("an event is repeated", Guarantee::Unique, repeat_event),
        ("two events change places", Guarantee::Ordered, reorder),
        ("a revision is split", Guarantee::Atomic, split),
        ("the version before an event is another one", Guarantee::PrevKv, wrong_prev_kv),
        ("the version before an event is missing", Guarantee::PrevKv, no_prev_kv),
        ("the revision of a progress response is too high", Guarantee::Bookmarkable, progress_too_high),
        ("an event of another key", Guarantee::Filter, stray_event),
        ("an event says that its key is new", Guarantee::IsCreate, wrong_version),
        ("a read is answered from an older state", Guarantee::Linearizable, stale_read),
        ("an answered write is not there", Guarantee::Linearizable, lost_write),
        ("the store's revision goes back", Guarantee::Monotonic, revision_goes_back),
        ("a read of the past sees another past", Guarantee::Serializable, other_past),
        ("what was shown is lost and made anew", Guarantee::OneHistory, shown_and_lost),
        ("a lease ends early", Guarantee::LeaseKept, short_lease),
    ];
    for (what, guarantee, mutate) in mutants {
        let mut spoiled = 0;
        for seed in 0..40 {
            let (mut history, rng) = (history(Setup::small(seed)), Rng::seeded(seed));
            if mutate(&mut history, &rng).is_none() {
                continue;
            }
            let verdict = judge(&history);
            assert!(verdict.breaks(guarantee), "{what}, seed {seed}: {verdict}");
            let named = verdict.violations.iter().find(|violation| violation.guarantee == guarantee).unwrap();
            assert!(!named.window.is_empty() && named.expected != named.seen, "{what}: {named}");
            spoiled += 1;
        }
        assert!(spoiled >= 20, "{what}: {spoiled} histories could be spoiled");
    }
}

fn pick<'a, T>(list: Vec<T>, rng: &Rng) -> Option<T>
where
    T: 'a,
{
    let at = rng.below((list.len() as u64).max(1)) as usize;
    list.into_iter().nth(at)
}

/// The events of each response.
fn batches(watch: &mut Watch) -> Vec<&mut Vec<Event>> {
    let said = watch.responses.iter_mut().map(|response| &mut response.said);
    said.filter_map(|said| match said {
        WatchContent::Events { events, .. } => Some(events),
        WatchContent::Created | WatchContent::Progress | WatchContent::Canceled { .. } => None,
    })
    .collect()
}

/// A watch on everything with at least this many responses with events.
fn busy(history: &mut History, least: usize) -> Option<&mut Watch> {
    history
        .watches
        .iter_mut()
        .skip(2)
        .filter(|watch| watch.request.keys.is_all())
        .find_map(|watch| (batches(watch).len() >= least).then_some(watch))
}

fn drop_event(history: &mut History, rng: &Rng) -> Option<()> {
    let watch = busy(history, 4)?;
    let mut batches = batches(watch);
    let inner = batches.len() as u64 - 2;
    let batch = &mut batches[1 + rng.below(inner) as usize];
    batch.remove(rng.below(batch.len() as u64) as usize);
    watch.responses.retain(
        |response| !matches!(&response.said, WatchContent::Events { events, .. } if events.is_empty()),
    );
    // A progress response would be reported first.
    watch.responses.retain(|response| response.said != WatchContent::Progress);
    Some(())
}

fn drop_first(history: &mut History, _: &Rng) -> Option<()> {
    let watch = busy(history, 3)?;
    let first = batches(watch)[0][0].kv.mod_revision;
    batches(watch)[0].retain(|event| event.kv.mod_revision > first);
    watch.responses.retain(|response| {
        response.said != WatchContent::Progress
            && !matches!(&response.said, WatchContent::Events { events, .. } if events.is_empty())
    });
    Some(())
}

fn drop_before_progress(history: &mut History, _: &Rng) -> Option<()> {
    let watch = busy(history, 6)?;
    let is_progress =
        |at: usize| watch.responses.get(at).is_some_and(|response| response.said == WatchContent::Progress);
    // The response after the progress has events, but the ones before the progress are removed.
    let last = (8..watch.responses.len()).find(|at| is_progress(*at) && !is_progress(*at - 1))?;
    watch.responses.truncate(last + 1);
    watch.responses.remove(last - 1);
    Some(())
}

fn repeat_event(history: &mut History, rng: &Rng) -> Option<()> {
    let batch = pick(batches(busy(history, 3)?), rng)?;
    let event = batch.last()?.clone();
    batch.push(event);
    Some(())
}

fn reorder(history: &mut History, _: &Rng) -> Option<()> {
    let batch = batches(busy(history, 3)?)
        .into_iter()
        .find(|batch| batch.len() > 1 && batch[0].kv.mod_revision < batch[batch.len() - 1].kv.mod_revision)?;
    let last = batch.len() - 1;
    batch.swap(0, last);
    Some(())
}

fn split(history: &mut History, _: &Rng) -> Option<()> {
    let watch = busy(history, 3)?;
    let together = |events: &[Event]| {
        let pairs = events.windows(2);
        pairs.into_iter().position(|pair| pair[0].kv.mod_revision == pair[1].kv.mod_revision)
    };
    let (at, cut) = watch.responses.iter().enumerate().find_map(|(at, response)| match &response.said {
        WatchContent::Events { events, .. } => Some((at, together(events)? + 1)),
        WatchContent::Created | WatchContent::Progress | WatchContent::Canceled { .. } => None,
    })?;
    let mut rest = watch.responses[at].clone();
    let WatchContent::Events { events, .. } = &mut watch.responses[at].said else {
        unreachable!("it was found so")
    };
    rest.said = WatchContent::Events { events: events.split_off(cut), fragment: false };
    watch.responses.insert(at + 1, rest);
    Some(())
}

fn prev_kvs(watch: &mut Watch) -> Vec<&mut Event> {
    batches(watch).into_iter().flatten().filter(|event| event.prev_kv.is_some()).collect()
}

fn wrong_prev_kv(history: &mut History, rng: &Rng) -> Option<()> {
    let watch = history
        .watches
        .iter_mut()
        .find_map(|watch| (watch.request.prev_kv && !prev_kvs(watch).is_empty()).then_some(watch))?;
    pick(prev_kvs(watch), rng)?.prev_kv.as_mut()?.value = "never".into();
    Some(())
}

fn no_prev_kv(history: &mut History, rng: &Rng) -> Option<()> {
    history.calls.retain(|call| !matches!(call.operation, Operation::Compact { .. }));
    history.calls.retain(|call| call.outcome != Outcome::Failed(crate::history::Refusal::Compacted));
    let watch = history
        .watches
        .iter_mut()
        .find_map(|watch| (watch.request.prev_kv && !prev_kvs(watch).is_empty()).then_some(watch))?;
    pick(prev_kvs(watch), rng)?.prev_kv = None;
    Some(())
}

fn progress_too_high(history: &mut History, _: &Rng) -> Option<()> {
    let watches = history.watches.iter_mut().filter(|watch| watch.request.keys.is_all());
    let response = watches
        .flat_map(|watch| &mut watch.responses)
        .find(|response| response.said == WatchContent::Progress)?;
    response.revision += 5;
    Some(())
}

fn stray_event(history: &mut History, _: &Rng) -> Option<()> {
    let watch = history
        .watches
        .iter_mut()
        .find_map(|watch| (!watch.request.keys.is_all() && !batches(watch).is_empty()).then_some(watch))?;
    batches(watch)[0][0].kv.key = "elsewhere".into();
    Some(())
}

fn wrong_version(history: &mut History, rng: &Rng) -> Option<()> {
    let watch = busy(history, 3)?;
    let old = |event: &&mut Event| is_put(event) && event.kv.version > 1;
    let event = pick(batches(watch).into_iter().flatten().filter(old).collect(), rng)?;
    (event.kv.version, event.kv.create_revision) = (1, event.kv.mod_revision);
    Some(())
}

/// Answered reads of everything at the current revision, by their returns.
fn reads(history: &History) -> Vec<usize> {
    let full = |call: &Call| matches!(&call.operation, Operation::Range(range) if range.limit == 3 && range.revision == 0);
    let mut reads: Vec<_> = (0..history.calls.len()).filter(|at| full(&history.calls[*at])).collect();
    reads.retain(|at| matches!(history.calls[*at].outcome, Outcome::Ok(_)));
    reads
}

fn range_reply(call: &mut Call) -> &mut RangeReply {
    match &mut call.outcome {
        Outcome::Ok(Reply::Range(reply)) => reply,
        other => unreachable!("a read was answered with {other:?}"),
    }
}

/// Gives a read the keys of an earlier one, with its own header.
fn stale_read(history: &mut History, _: &Rng) -> Option<()> {
    let reads = reads(history);
    let (early, late) = (*reads.first()?, *reads.last()?);
    let old = range_reply(&mut history.calls[early]).clone();
    let new = range_reply(&mut history.calls[late]);
    if old.kvs == new.kvs {
        return None;
    }
    (new.kvs, new.count, new.more) = (old.kvs, old.count, old.more);
    Some(())
}

/// Gives a write the revision of the next write.
fn lost_write(history: &mut History, rng: &Rng) -> Option<()> {
    let writes = |call: &Call| matches!(&call.outcome, Outcome::Ok(Reply::Txn { results, .. }) if matches!(results[..], [OpReply::Put(None)]));
    let writes: Vec<_> = (0..history.calls.len()).filter(|at| writes(&history.calls[*at])).collect();
    let at = pick(writes, rng)?;
    let write = history.calls[at].clone();
    let Outcome::Ok(Reply::Txn { revision, .. }) = write.outcome else { return None };
    let put = Op::Put { key: "lost".into(), value: "lost".into(), lease: 0, prev_kv: false };
    let operation = Operation::Txn(Txn::of(put));
    let results = vec![OpReply::Put(None)];
    let outcome = Outcome::Ok(Reply::Txn { revision, succeeded: true, results });
    history.calls.push(Call { client: 99, operation, outcome, ..write });
    Some(())
}

fn revision_goes_back(history: &mut History, _: &Rng) -> Option<()> {
    let reads = reads(history);
    let (early, late) = (*reads.first()?, *reads.last()?);
    let old = range_reply(&mut history.calls[early]).clone();
    if old.revision == range_reply(&mut history.calls[late]).revision {
        return None;
    }
    *range_reply(&mut history.calls[late]) = old;
    Some(())
}

fn other_past(history: &mut History, rng: &Rng) -> Option<()> {
    let past = |call: &&mut Call| {
        matches!(&call.operation, Operation::Range(range) if range.revision > 0)
            && matches!(&call.outcome, Outcome::Ok(Reply::Range(reply)) if reply.kvs.len() > 1)
    };
    let call = pick(history.calls.iter_mut().filter(past).collect(), rng)?;
    let reply = range_reply(call);
    reply.kvs.remove(0);
    reply.count -= 1;
    Some(())
}

/// Another client reads an unanswered write before everything else, at a revision that then has another write.
fn shown_and_lost(history: &mut History, _: &Rng) -> Option<()> {
    let first = |call: &&Call| {
        matches!(&call.outcome, Outcome::Ok(Reply::Txn { revision, results, .. }) if *revision < 6 && results == &[OpReply::Put(None)])
            && matches!(&call.operation, Operation::Txn(txn) if txn.compares.is_empty() && txn.then.len() == 1)
    };
    let made = history.calls.iter().find(first)?.clone();
    let Outcome::Ok(Reply::Txn { revision, .. }) = made.outcome else { return None };
    let Operation::Txn(txn) = &made.operation else { return None };
    let Op::Put { key, .. } = &txn.then[0] else { return None };
    let put = Op::Put { key: key.clone(), value: "unsynced".into(), lease: 0, prev_kv: false };
    let (operation, outcome) = (Operation::Txn(Txn::of(put)), Outcome::Unknown);
    history.calls.push(Call { client: 98, operation, outcome, ..made.clone() });
    let (value, version) = ("unsynced".into(), 1);
    let kv = KeyValue {
        key: key.clone(),
        value,
        create_revision: revision,
        mod_revision: revision,
        version,
        lease: 0,
    };
    let operation = Operation::Range(Range { keys: Keys::one(key.clone()), ..Range::default() });
    let outcome = Outcome::Ok(Reply::Range(RangeReply { revision, kvs: vec![kv], more: false, count: 1 }));
    history.calls.push(Call { client: 97, operation, outcome, ..made });
    Some(())
}

fn short_lease(history: &mut History, _: &Rng) -> Option<()> {
    let granted = |call: &&Call| {
        matches!(call.operation, Operation::LeaseGrant { .. }) && matches!(call.outcome, Outcome::Ok(_))
    };
    let grant = history.calls.iter().find(granted)?.clone();
    let Operation::LeaseGrant { id, .. } = grant.operation else { return None };
    history.calls.retain(|call| call.operation != Operation::LeaseRevoke { id });
    let operation = Operation::LeaseKeepAlive { id };
    let outcome = Outcome::Ok(Reply::LeaseKeepAlive { ttl: 0 });
    history.calls.push(Call { client: 96, call: grant.ret + 1, ret: grant.ret + 2, operation, outcome });
    Some(())
}
