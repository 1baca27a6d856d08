//! Properties of random runs, judged by a model that only counts seats; and simulations of backlogged flows,
//! judged by the service that each flow received.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One step of a random run. Numbers choose among what is possible then.
#[derive(Clone, Debug)]
enum Step {
    Arrive { flow: u64, work: Work },
    Finish(usize),
    Abandon { which: usize, is_timeout: bool },
    Limit(u32),
    Queues(usize),
    ReleaseOlder,
}

fn work() -> impl Strategy<Value = Work> {
    (1u32..5, 0u32..5, 0u64..20).prop_map(|(seats, final_seats, extra)| Work {
        seats,
        final_seats,
        extra: Duration::from_millis(if final_seats == 0 { 0 } else { extra }),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..1000, work()).prop_map(|(flow, work)| Step::Arrive { flow, work }),
        5 => any::<usize>().prop_map(Step::Finish),
        2 => (any::<usize>(), any::<bool>())
            .prop_map(|(which, is_timeout)| Step::Abandon { which, is_timeout }),
        1 => (0u32..12).prop_map(Step::Limit),
        1 => (1usize..9).prop_map(Step::Queues),
        1 => Just(Step::ReleaseOlder),
    ]
}

const LENGTH: usize = 3;

/// What the model knows: which requests wait and run, with their seats.
#[derive(Default)]
struct Model {
    /// By the number under which they arrived.
    waiting: BTreeMap<u64, (RequestId, Work)>,
    running: BTreeMap<u64, (RequestId, Work)>,
    next: u64,
}

impl Model {
    fn woken(&mut self, names: &[u64]) {
        for name in names {
            let request = self.waiting.remove(name).expect("only a waiting request is woken, and once");
            self.running.insert(*name, request);
        }
    }
}

fn pick(of: &BTreeMap<u64, (RequestId, Work)>, which: usize) -> Option<(u64, RequestId)> {
    let at = which.checked_rem(of.len())?;
    of.iter().nth(at).map(|(name, (id, _))| (*name, *id))
}

fn apply(set: &mut QueueSet<u64>, model: &mut Model, now: Duration, step: Step) {
    let mut woken = Vec::new();
    match step {
        Step::Arrive { flow, work } => {
            let name = model.next;
            model.next += 1;
            match set.arrive(now, flow, work, name, &mut |name| woken.push(*name)) {
                Ok(Arrival::Running(id)) => drop(model.running.insert(name, (id, work))),
                Ok(Arrival::Waiting { id, length }) => {
                    assert!((1..=LENGTH).contains(&length), "a queue of {length}");
                    model.waiting.insert(name, (id, work));
                }
                Err(_) => {}
            }
        }
        Step::Finish(which) => {
            let Some((name, id)) = pick(&model.running, which) else { return };
            model.running.remove(&name);
            assert_eq!(set.finish(id, now, &mut |name| woken.push(*name)).0, name);
        }
        Step::Abandon { which, is_timeout } => {
            let Some((name, id)) = pick(&model.waiting, which) else { return };
            // Seats may have become free since; then it runs, as a racing client would find.
            match set.abandon(id, is_timeout, now, &mut |name| woken.push(*name)) {
                Some((found, _)) => {
                    assert_eq!(found, name);
                    model.waiting.remove(&name);
                }
                None => panic!("the model's waiting requests wait"),
            }
        }
        Step::Limit(limit) => set.set_limit(limit, now, &mut |name| woken.push(*name)),
        Step::Queues(queues) => {
            let limiting = Limiting::Queue { queues, hand: 2, length: LENGTH };
            set.configure(limiting, now, &mut |name| woken.push(*name));
        }
        Step::ReleaseOlder => {
            set.release_older(Duration::from_millis(50), now, &mut |name| woken.push(*name));
        }
    }
    model.woken(&woken);
}

fn check(set: &QueueSet<u64>, model: &Model, limit_was: u64) {
    let counts = set.counts();
    assert_eq!((counts.waiting, counts.running), (model.waiting.len(), model.running.len()));
    let queues = set.queues();
    assert_eq!(queues.iter().map(|queue| queue.waiting).sum::<usize>(), counts.waiting);
    assert_eq!(queues.iter().map(|queue| queue.seats).sum::<u64>(), counts.seats);
    assert_eq!(set.active, set.queues.iter().filter(|queue| queue.is_active()).count());
    assert!(queues.iter().all(|queue| queue.waiting_work >= -1e-9));
    let waiting: u64 = model.waiting.values().map(|(_, work)| u64::from(work.widest())).sum();
    assert_eq!(counts.waiting_seats, waiting);
    // More seats than the limit: one request that is wider than it, or the limit was higher.
    let widest = set.requests.iter().filter(|entry| entry.started.is_some()).map(|e| e.work.widest()).max();
    let widest = u64::from(widest.unwrap_or(0)).max(10);
    assert!(counts.seats <= limit_was.max(widest), "{} seats of {limit_was}", counts.seats);
    // Requests wait only if seats are occupied.
    assert!(counts.waiting == 0 || counts.seats > 0);
}

proptest! {
    #[test]
    fn random_runs_keep_the_limits_and_lose_no_request(
        steps in proptest::collection::vec((step(), 0u64..10), 1..120),
    ) {
        let mut set = QueueSet::new(Limiting::Queue { queues: 4, hand: 2, length: LENGTH }, 5);
        let (mut model, mut now, mut highest) = (Model::default(), Duration::ZERO, 5u64);
        for (step, passed) in steps {
            now += Duration::from_millis(passed);
            let mut woken = Vec::new();
            set.expire(now, &mut |name| woken.push(*name));
            model.woken(&woken);
            if let Step::Limit(limit) = &step {
                highest = highest.max(u64::from(*limit));
            }
            apply(&mut set, &mut model, now, step);
            check(&set, &model, highest);
        }
        // When all leave, nothing remains.
        while !(model.running.is_empty() && model.waiting.is_empty()) {
            now += Duration::from_millis(30);
            let mut woken = Vec::new();
            set.expire(now, &mut |name| woken.push(*name));
            model.woken(&woken);
            apply(&mut set, &mut model, now, Step::Finish(0));
        }
        set.expire(now + Duration::from_secs(1), &mut |_| {});
        prop_assert!(set.is_idle());
        prop_assert_eq!((set.counts().seats, set.counts().waiting_seats), (0, 0));
        prop_assert!(set.queues().iter().all(|queue| queue.waiting == 0 && queue.running == 0));
    }
}

/// A flow in a simulation: how many requests it keeps outstanding, their seats and running time.
#[derive(Clone, Copy, Debug)]
struct Client {
    outstanding: usize,
    seats: u32,
    time: u64,
}

/// Seat-milliseconds that each client received in `length` milliseconds, and its longest wait.
fn simulate(limit: u32, clients: &[Client], length: u64) -> Vec<(u64, u64)> {
    let limiting = Limiting::Queue { queues: clients.len(), hand: 1, length: 1000 };
    let mut set: QueueSet<(usize, u64)> = QueueSet::new(limiting, limit);
    let mut ends = BTreeMap::<(u64, RequestId), usize>::new();
    let mut results = vec![(0u64, 0u64); clients.len()];
    let mut waiting = BTreeMap::<(usize, u64), RequestId>::new();
    let (mut arrivals, mut number): (Vec<usize>, u64) = (Vec::new(), 0);
    for (client, about) in clients.iter().enumerate() {
        arrivals.extend(std::iter::repeat_n(client, about.outstanding));
    }
    let mut now = 0;
    while now < length {
        for client in std::mem::take(&mut arrivals) {
            number += 1;
            let about = clients[client];
            let name = (client, number * 1_000_000 + now);
            let queue = client as u64;
            let time = Duration::from_millis(now);
            match set.arrive(time, queue, Work::of(about.seats), name, &mut |_| unreachable!()).unwrap() {
                Arrival::Running(id) => drop(ends.insert((now + about.time, id), client)),
                Arrival::Waiting { id, .. } => drop(waiting.insert(name, id)),
            }
        }
        let Some(((end, id), client)) = ends.pop_first() else { break };
        now = end;
        let mut woken = Vec::new();
        set.finish(id, Duration::from_millis(now), &mut |name| woken.push(*name));
        results[client].0 += u64::from(clients[client].seats) * clients[client].time;
        for name in woken {
            let (of, arrived) = (name.0, name.1 % 1_000_000);
            results[of].1 = results[of].1.max(now - arrived);
            let id = waiting.remove(&name).unwrap();
            ends.insert((now + clients[of].time, id), of);
        }
        arrivals.push(client);
    }
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn backlogged_flows_receive_equal_service(
        limit in 1u32..8,
        more in proptest::collection::vec((8usize..60, 1u64..40), 2..6),
    ) {
        let client = |(outstanding, time)| Client { outstanding, seats: 1, time };
        let clients: Vec<Client> = more.into_iter().map(client).collect();
        let length = 4_000;
        let service: Vec<u64> = simulate(limit, &clients, length).iter().map(|(served, _)| *served).collect();
        let equal = u64::from(limit) * length / clients.len() as u64;
        // Each seat can be one longest request ahead or behind, and the first round is served by the
        // assumed time.
        let slack = u64::from(limit) * 40 * 4 + 40 * 60;
        for served in &service {
            prop_assert!(served.abs_diff(equal) <= slack, "{service:?}: each should have {equal}");
        }
    }

    #[test]
    fn a_modest_flow_waits_for_few_requests_of_a_flood(
        limit in 1u32..8,
        flood in 50usize..500,
        time in 1u64..30,
        seats in 1u32..8,
    ) {
        let flood = Client { outstanding: flood, seats, time };
        let modest = Client { outstanding: 1, seats: 1, time };
        let results = simulate(limit, &[flood, modest], 2_000);
        // The requests that run when it comes, and one that was already the next.
        prop_assert!(results[1].1 <= 2 * time, "waited {} ms of {time}", results[1].1);
        prop_assert!(results[1].0 >= 2_000 / (3 * time) * time - 3 * time, "{results:?}");
    }
}
