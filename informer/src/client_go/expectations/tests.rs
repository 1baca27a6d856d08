//! Tests of expectations against a simple model, and with a controller that relies on them alone.

use super::*;
use crate::testing::{Chaos, FakeStore, Sample};
use crate::{Action, Builder, Controller, Delta, Index, Key, Object};
use kstore_nondet::{Nondet, Rng};
use proptest::prelude::*;
use std::convert::Infallible;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Op {
    /// A creation starts.
    Create,
    /// The n-th open creation returns its object.
    Made(usize),
    /// The n-th open creation fails.
    Failed(usize),
    /// The watch shows the n-th existing object.
    Seen(usize),
    /// The deletion of the n-th existing object starts, and the server accepts it.
    Delete(usize),
    /// The deletion of the n-th existing object starts, and fails.
    DeleteFails(usize),
    /// The watch shows the deletion of the n-th object.
    Gone(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0_usize..6;
    prop_oneof![
        3 => Just(Op::Create),
        2 => n.clone().prop_map(Op::Made),
        1 => n.clone().prop_map(Op::Failed),
        3 => n.clone().prop_map(Op::Seen),
        2 => n.clone().prop_map(Op::Delete),
        1 => n.clone().prop_map(Op::DeleteFails),
        2 => n.prop_map(Op::Gone),
    ]
}

/// True state of one object. It exists on the server from the start of its creation: the watch may be faster
/// than the response.
#[derive(Default)]
struct TestObject {
    ticket: Option<Creation<u8>>,
    failed: bool,
    seen: bool,
    deleting: bool,
    gone: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    /// Satisfied iff every successful creation has returned and was seen, and every deletion was seen, in any
    /// order of responses and events. No memory is used then.
    #[test]
    fn exactly_the_unseen_writes_are_expected(ops in proptest::collection::vec(op(), 0..40)) {
        let _time = paused().enter();
        let (all, mut things) = (Expectations::new(), Vec::<TestObject>::new());
        for op in ops {
            match op {
                Op::Create => things.push(TestObject { ticket: Some(all.creating(&7)), ..TestObject::default() }),
                Op::Made(n) => {
                    if let Some((i, thing)) = things.iter_mut().enumerate().filter(|(_, t)| t.ticket.is_some()).nth(n) {
                        thing.ticket.take().unwrap().made(&i.to_string());
                    }
                }
                Op::Failed(n) => {
                    if let Some(thing) = things.iter_mut().filter(|t| t.ticket.is_some() && !t.seen && !t.gone).nth(n) {
                        thing.ticket = None;
                        thing.failed = true;
                    }
                }
                Op::Seen(n) => if let Some(thing) = things.get_mut(n) && !thing.failed {
                    all.seen(&7, &n.to_string());
                    thing.seen = true;
                },
                Op::Delete(n) => if let Some(thing) = things.get_mut(n) && !thing.failed {
                    all.deleting(&7, &n.to_string()).sent();
                    thing.deleting = !thing.gone;
                    // No controller deletes an object that is known to be gone; such a deletion would stay
                    // expected until the timeout.
                    if thing.gone { all.gone(&7, &n.to_string()); }
                },
                Op::DeleteFails(n) => if let Some(thing) = things.get_mut(n) && !thing.deleting {
                    drop(all.deleting(&7, &n.to_string()));
                    let _ = thing;
                },
                Op::Gone(n) => if let Some(thing) = things.get_mut(n) && !thing.failed {
                    all.gone(&7, &n.to_string());
                    thing.gone = true;
                    thing.seen = true;
                    thing.deleting = false;
                },
            }
            let open = |t: &TestObject| t.ticket.is_some() || (!t.failed && !t.seen) || t.deleting;
            let satisfied = !things.iter().any(open);
            prop_assert_eq!(all.satisfied(&7), satisfied);
            prop_assert_eq!(all.is_empty(), satisfied);
        }
    }
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn expectations_expire_after_five_minutes() {
    let all = Expectations::new();
    all.creating(&"web").made("uid-1");
    tokio::time::advance(EXPECTATIONS_TIMEOUT - std::time::Duration::from_millis(1)).await;
    assert!(!all.satisfied(&"web"));
    assert!(all.satisfied(&"other"));
    tokio::time::advance(std::time::Duration::from_millis(1)).await;
    assert!(all.satisfied(&"web"));
    assert!(all.is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_before_forget_do_not_affect_later_expectations() {
    let all = Expectations::new();
    let (old, old_deletion) = (all.creating(&"web"), all.deleting(&"web", "uid-0"));
    all.forget(&"web");
    let new = all.creating(&"web");
    all.deleting(&"web", "uid-0").sent();
    drop((old, old_deletion));
    new.made("uid-1");
    all.seen(&"web", "uid-1");
    assert!(!all.satisfied(&"web"), "the deletion is still expected");
    all.gone(&"web", "uid-0");
    assert!(all.satisfied(&"web"));
}

/// C2, without comparable revisions: expectations alone keep a controller from creating too many objects.
#[tokio::test(start_paused = true)]
async fn expectations_prevent_duplicate_creations() {
    for seed in 0..20 {
        let (store, stop) = (FakeStore::new(), CancellationToken::new());
        let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
        let by_owner = Index::by_controller();
        let chaos = Chaos { delay: 60, ..Chaos::new(Rng::seeded(seed)) };
        let set_cache = Builder::new(sets.source()).spawn(&stop);
        let pod_cache = Builder::new(pods.source().chaos(chaos)).index(&by_owner).spawn(&stop);
        let expected = Expectations::<Key>::new();
        let observer = expected.clone();
        let controller = Controller::new("sets", Nondet::simulated(seed))
            .watch(&set_cache, |set| Some(set.key()))
            .watch_deltas(&pod_cache, move |delta| {
                let owner = delta.object().controller().map(|(_, owner)| owner);
                if let (Some(owner), Delta::Added(pod)) = (&owner, delta) {
                    observer.seen(owner, pod.uid());
                }
                owner
            });
        let queue = controller.queue();
        let creator = pods.clone();
        tokio::spawn(controller.run(stop.clone(), move |cx| {
            let (sets, cache, by_owner) = (set_cache.clone(), pod_cache.clone(), by_owner.clone());
            let (pods, expected) = (creator.clone(), expected.clone());
            async move {
                let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
                if !expected.satisfied(&cx.key) {
                    return Ok(Action::Done);
                }
                for n in cache.by(&by_owner, set.uid()).len() as u64..set.value {
                    let ticket = expected.creating(&cx.key);
                    let name = format!("{}-{n}", pods.list().len());
                    ticket.made(pods.put(Sample::new("default", &name).owned_by(&*set)).uid());
                }
                Ok::<_, Infallible>(Action::Done)
            }
        }));
        sets.put(Sample::new("default", "web").value(5));
        for _ in 0..200 {
            tokio::time::sleep(std::time::Duration::from_millis(97)).await;
            queue.add(Key::new("default", "web"), crate::Causes::none());
        }
        assert_eq!(pods.list().len(), 5, "seed {seed}");
        stop.cancel();
    }
}
