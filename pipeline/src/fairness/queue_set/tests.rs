//! Cases of single transitions: what one arrival, departure or change of the configuration does.

use super::*;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const ONE: Work = Work::of(1);

/// A level whose queues each flow shares with no other: the hash is the number of the queue.
fn level(limit: u32, length: usize) -> QueueSet<&'static str> {
    QueueSet::new(Limiting::Queue { queues: 8, hand: 1, length }, limit)
}

/// A request of the flow `queue` that has to wait, or runs.
fn arrive(
    set: &mut QueueSet<&'static str>,
    at: u64,
    queue: u64,
    work: Work,
    name: &'static str,
) -> RequestId {
    match set.arrive(ms(at), queue, work, name, &mut |_| panic!("an arrival wakes no other request")).unwrap()
    {
        Arrival::Running(id) | Arrival::Waiting { id, .. } => id,
    }
}

fn finish(set: &mut QueueSet<&'static str>, at: u64, id: RequestId) -> Vec<&'static str> {
    let mut woken = Vec::new();
    set.finish(id, ms(at), &mut |name| woken.push(*name));
    woken
}

#[test]
fn requests_run_while_seats_are_free_and_then_wait() {
    let mut set = level(2, 10);
    let (a, _b) = (arrive(&mut set, 0, 0, ONE, "a"), arrive(&mut set, 0, 0, ONE, "b"));
    arrive(&mut set, 0, 0, ONE, "c");
    assert_eq!((set.counts().running, set.counts().waiting), (2, 1));
    assert_eq!(finish(&mut set, 5, a), ["c"]);
    assert_eq!((set.counts().running, set.counts().waiting, set.counts().seats), (2, 0, 2));
}

#[test]
fn a_full_queue_rejects() {
    let mut set = level(1, 2);
    for name in ["runs", "first", "second"] {
        arrive(&mut set, 0, 0, ONE, name);
    }
    assert_eq!(set.arrive(ms(0), 0, ONE, "third", &mut |_| {}), Err(Rejection::QueueFull));
    assert!(set.arrive(ms(0), 1, ONE, "of another flow", &mut |_| {}).is_ok());
    assert_eq!(set.counts().rejected, 1);
}

#[test]
fn a_level_without_queues_rejects_and_an_exempt_one_never_does() {
    let mut set = QueueSet::new(Limiting::Reject, 1);
    let first = arrive(&mut set, 0, 0, ONE, "first");
    assert_eq!(set.arrive(ms(0), 0, ONE, "second", &mut |_| {}), Err(Rejection::NoSeat));
    finish(&mut set, 1, first);
    arrive(&mut set, 1, 0, ONE, "third");
    let mut exempt = QueueSet::new(Limiting::Exempt, 0);
    for _ in 0..100 {
        arrive(&mut exempt, 0, 0, Work::of(10), "any");
    }
    assert_eq!(exempt.counts().running, 100);
}

#[test]
fn the_flow_with_less_service_is_served_first() {
    let mut set = level(1, 10);
    let first = arrive(&mut set, 0, 0, ONE, "greedy 1");
    for name in ["greedy 2", "greedy 3"] {
        arrive(&mut set, 0, 0, ONE, name);
    }
    arrive(&mut set, 1, 1, ONE, "modest");
    assert_eq!(finish(&mut set, 100, first), ["modest"]);
}

#[test]
fn a_wide_request_is_not_overtaken_and_runs_alone_if_it_exceeds_the_limit() {
    let mut set = level(4, 10);
    let narrow = [0, 0, 0].map(|at| arrive(&mut set, at, 0, ONE, "narrow"));
    arrive(&mut set, 1, 1, Work::of(9), "wide");
    arrive(&mut set, 2, 1, ONE, "late");
    assert_eq!(finish(&mut set, 3, narrow[0]), [""; 0]);
    assert_eq!(finish(&mut set, 4, narrow[1]), [""; 0]);
    assert_eq!(finish(&mut set, 5, narrow[2]), ["wide"]);
    assert_eq!(set.counts().seats, 9);
    assert!(set.counts().too_wide >= 2);
}

#[test]
fn seats_of_a_write_stay_occupied_while_watchers_receive_its_event() {
    let mut set = level(1, 10);
    let write = Work { seats: 1, final_seats: 1, extra: ms(5) };
    let write = arrive(&mut set, 0, 0, write, "write");
    assert_eq!(set.next_expiry(), None, "nothing waits");
    assert_eq!(finish(&mut set, 2, write), [""; 0]);
    let read = arrive(&mut set, 3, 1, ONE, "read");
    assert_eq!((set.counts().running, set.next_expiry()), (0, Some(ms(7))));
    let mut woken = Vec::new();
    set.expire(ms(7), &mut |name| woken.push(*name));
    assert_eq!(woken, ["read"]);
    finish(&mut set, 8, read);
    assert!(set.is_idle());
}

#[test]
fn a_request_that_gives_up_leaves_its_place() {
    let mut set = level(1, 2);
    let runs = arrive(&mut set, 0, 0, ONE, "runs");
    let (first, second) = (arrive(&mut set, 0, 0, ONE, "first"), arrive(&mut set, 0, 0, ONE, "second"));
    assert_eq!(set.abandon(first, true, ms(1), &mut |_| {}), Some(("first", ms(1))));
    arrive(&mut set, 1, 0, ONE, "third");
    assert_eq!(finish(&mut set, 2, runs), ["second"]);
    assert_eq!(set.abandon(second, false, ms(3), &mut |_| {}), None, "it runs");
    assert_eq!((set.counts().timed_out, set.counts().cancelled), (1, 0));
}

#[test]
fn waiting_requests_drain_from_queues_that_are_configured_away() {
    let mut set = level(1, 10);
    let runs = arrive(&mut set, 0, 7, ONE, "runs");
    arrive(&mut set, 0, 7, ONE, "waits");
    let fewer = Limiting::Queue { queues: 2, hand: 1, length: 10 };
    set.configure(fewer, ms(1), &mut |_| {});
    assert_eq!(set.queues().len(), 8);
    assert_eq!(finish(&mut set, 2, runs), ["waits"]);
    set.configure(Limiting::Reject, ms(3), &mut |_| {});
    assert_eq!(set.arrive(ms(3), 0, ONE, "no seat", &mut |_| {}), Err(Rejection::NoSeat));
}

#[test]
fn more_seats_let_waiting_requests_run_and_overdue_ones_lose_theirs() {
    let mut set = level(1, 10);
    let runs = arrive(&mut set, 0, 0, ONE, "runs");
    for name in ["second", "third"] {
        arrive(&mut set, 0, 0, ONE, name);
    }
    let mut woken = Vec::new();
    set.set_limit(2, ms(1), &mut |name| woken.push(*name));
    set.release_older(ms(60_000), ms(60_001), &mut |name| woken.push(*name));
    assert_eq!(woken, ["second", "third"]);
    finish(&mut set, 70_000, runs);
    assert_eq!((set.counts().seats, set.counts().running), (2, 2));
}
