//! Properties of the election under all connection and clock faults.

use super::*;
use proptest::prelude::*;

fn simulate<F: Future<Output = ()>>(run: F) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(run);
}

/// Clock rates whose fastest is less than 15/12 times the slowest: the tolerance of the default durations
/// (see [`ElectorOptions::grace`]).
fn fair_rates() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.9..1.12, 3)
}

/// A fault of a candidate: cut or restore its connection, or stop it.
fn faults() -> impl Strategy<Value = Vec<(usize, bool, u64)>> {
    prop::collection::vec((0usize..3, prop::bool::weighted(0.1), 1u64..20), 0..12)
}

async fn play(all: &Candidates, faults: &[(usize, bool, u64)]) {
    for (who, stops, time) in faults {
        match stops {
            true => all.stops[*who].cancel(),
            false => {
                let was_cut = *all.connections[*who].cut.lock();
                *all.connections[*who].cut.lock() = !was_cut;
            }
        }
        seconds(*time).await;
    }
    for connection in &all.connections {
        *connection.cut.lock() = false;
        *connection.faults.lock() = None;
    }
}

/// Checks each state of the lease against the previous one.
fn check_history(past: &[LeaseRecord]) {
    assert_eq!(past.first().map_or(0, |first| first.transitions), 0);
    for (before, after) in past.iter().zip(past.iter().skip(1)) {
        let same_term = before.transitions == after.transitions;
        if same_term && !after.holder.is_empty() {
            assert!(!before.holder.is_empty(), "L5: {after:?} after a release");
            assert_eq!((&before.holder, before.acquired), (&after.holder, after.acquired), "L4");
        }
        assert!(same_term || after.transitions == before.transitions + 1, "one by one: {before:?} {after:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// L1: with a bounded clock rate error, the terms of two candidates never overlap, for all connections
    /// and all behaviours of the work. L3: with working connections a candidate leads. L4: renewals change
    /// neither acquireTime nor transitions. L5: no write of the old holder follows a release.
    #[test]
    fn at_most_one_leads_and_with_working_connections_one_does(
        seed in any::<u32>(), rates in fair_rates(), faults in faults()
    ) {
        simulate(async {
            let mut all = Candidates::new();
            for rate in rates {
                all.join(Some(seed.into()), seed.is_multiple_of(2), rate);
            }
            play(&all, &faults).await;
            seconds(60).await;
            all.monitor.assert_never_two();
            check_history(&all.lease.past.lock());
            let willing = all.stops.iter().any(|stop| !stop.is_cancelled());
            assert_eq!(all.monitor.leader().is_some(), willing, "with working connections there is a leader");
            for (task, stop) in all.tasks.iter().zip(&all.stops) {
                assert_eq!(task.is_finished(), stop.is_cancelled(), "only stopped candidates end");
            }
        });
    }

    /// L2: the store refuses a write with the fence of a deposed leader, with any clock behaviour. Of all
    /// accepted writes, none names an earlier term than one before it. L4 and L5 hold with any clock, too.
    #[test]
    fn writes_of_a_deposed_leader_are_refused_with_any_clocks(
        seed in any::<u32>(), rates in prop::collection::vec(0.02f64..50.0, 3), faults in faults()
    ) {
        simulate(async {
            let mut all = Candidates::new();
            let taken: Arc<Mutex<Vec<u32>>> = Arc::default();
            for rate in rates {
                all.join(Some(seed.into()), true, rate);
            }
            let (monitor, lease, log) = (all.monitor.clone(), all.lease.clone(), taken.clone());
            // Every former leader continues to write.
            tokio::spawn(async move {
                loop {
                    sleep(Duration::from_millis(50)).await;
                    let fences = monitor.0.lock().fences.clone();
                    let taken = fences.iter().filter(|fence| lease.takes(fence));
                    log.lock().extend(taken.map(|fence| fence.transitions));
                }
            });
            play(&all, &faults).await;
            seconds(10).await;
            assert!(taken.lock().is_sorted(), "a late write was taken");
            check_history(&all.lease.past.lock());
        });
    }

    /// L3: after a leader vanishes, another leads within the lease plus the longest pause between two
    /// attempts.
    #[test]
    fn a_vanished_leader_is_replaced_within_lease_plus_pause(seed in any::<u16>(), age in 0u64..30_000) {
        simulate(async {
            let all = candidates(3, None, seed.is_multiple_of(2));
            sleep(Duration::from_millis(5_000 + age)).await;
            let first = all.monitor.leader().expect("there is a leader");
            all.tasks[first].abort();
            let options = ElectorOptions::new("any");
            sleep(options.lease + options.pause(1.0)).await;
            assert!(all.monitor.leader().is_some());
            all.monitor.assert_never_two();
        });
    }
}

#[test]
fn clocks_beyond_the_tolerance_give_two_leaders_that_fences_distinguish() {
    simulate(async {
        let mut all = Candidates::new();
        all.join(None, true, 0.1);
        seconds(1).await;
        all.join(None, true, 1.0);
        *all.connections[0].cut.lock() = true;
        seconds(30).await;
        let terms = all.monitor.0.lock();
        assert_eq!((terms.leading.as_slice(), terms.overlaps), (&[0, 1][..], 1));
        let takes: Vec<_> = terms.fences.iter().map(|fence| all.lease.takes(fence)).collect();
        assert_eq!(takes, [false, true]);
    });
}

#[test]
fn a_candidate_stopped_while_acquiring_releases_the_lease() {
    simulate(async {
        let mut all = Candidates::new();
        all.join(None, false, 1.0);
        *all.connections[0].late.lock() = Duration::from_secs(2);
        seconds(1).await;
        all.stops[0].cancel();
        seconds(10).await;
        assert!(all.tasks[0].is_finished());
        assert_eq!(all.lease.record().holder, "", "taken by the lost attempt, and given up");
    });
}

/// L1 at its bound: the leader's clock is slow, the next one's fast, and the work does not end by itself.
#[test]
fn clocks_at_the_tolerance_bound_never_give_two_leaders() {
    for offset in 0..20 {
        simulate(async {
            let mut all = Candidates::new();
            all.join(None, true, 0.9);
            seconds(1).await;
            all.join(None, true, 1.11);
            sleep(Duration::from_millis(5_000 + 117 * offset)).await;
            *all.connections[0].cut.lock() = true;
            seconds(40).await;
            assert_eq!(all.monitor.leader(), Some(1));
            all.monitor.assert_never_two();
        });
    }
}
