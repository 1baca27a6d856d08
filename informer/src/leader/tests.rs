//! Elections over one lease that can be slow, fail, or be cut off from a candidate.

use std::sync::Arc;

use kstore_nondet::Rng;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

/// One lease, as one candidate reaches it.
#[derive(Clone)]
struct Line {
    lease: Arc<Mutex<Option<(LeaseRecord, Revision)>>>,
    cut: Arc<Mutex<bool>>,
    faults: Arc<Mutex<Option<Rng>>>,
    /// How late answers to writes come.
    late: Arc<Mutex<Duration>>,
}

impl Line {
    async fn travel(&self) -> Result<(), LeaseError> {
        let faults = self.faults.lock().clone();
        if let Some(rng) = faults {
            sleep(Duration::from_millis(rng.below(3_000))).await;
            if rng.below(100) < 12 {
                return Err(LeaseError::Failed("fault".into()));
            }
        }
        match *self.cut.lock() {
            true => Err(LeaseError::Failed("cut off".into())),
            false => Ok(()),
        }
    }

    fn write(&self, record: &LeaseRecord, at: Option<Revision>) -> Result<Revision, LeaseError> {
        let mut lease = self.lease.lock();
        if lease.as_ref().map(|(_, revision)| *revision) != at {
            return Err(LeaseError::Conflict);
        }
        let next = Revision(at.unwrap_or_default().0 + 1);
        *lease = Some((record.clone(), next));
        Ok(next)
    }
}

impl LeaseStore for Line {
    async fn get(&self) -> Result<Option<(LeaseRecord, Revision)>, LeaseError> {
        self.travel().await?;
        Ok(self.lease.lock().clone())
    }

    async fn create(&self, record: &LeaseRecord) -> Result<Revision, LeaseError> {
        self.travel().await?;
        let written = self.write(record, None);
        let late = *self.late.lock();
        sleep(late).await;
        self.travel().await.and(written)
    }

    async fn replace(&self, record: &LeaseRecord, at: Revision) -> Result<Revision, LeaseError> {
        self.travel().await?;
        let written = self.write(record, Some(at));
        let late = *self.late.lock();
        sleep(late).await;
        self.travel().await.and(written)
    }
}

/// Who leads, and everyone who did.
#[derive(Clone, Default)]
struct Throne(Arc<Mutex<Reign>>);

#[derive(Default)]
struct Reign {
    leader: Option<usize>,
    fences: Vec<Revision>,
}

impl Throne {
    async fn sit(self, who: usize, leadership: Leadership, stubborn: bool) {
        {
            let mut reign = self.0.lock();
            assert_eq!(reign.leader, None, "two lead at once");
            reign.leader = Some(who);
            let last = reign.fences.last().copied();
            assert!(last < Some(leadership.fence()), "the fence grows with each leader");
            reign.fences.push(leadership.fence());
        }
        let _leave = Leave(self.clone());
        leadership.lost().cancelled().await;
        if stubborn {
            std::future::pending::<()>().await;
        }
    }

    fn leader(&self) -> Option<usize> {
        self.0.lock().leader
    }
}

struct Leave(Throne);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.0.lock().leader = None;
    }
}

struct Election {
    throne: Throne,
    lines: Vec<Line>,
    stops: Vec<CancellationToken>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

fn election(candidates: usize, faults: Option<u64>, stubborn: bool) -> Election {
    let (throne, lease) = (Throne::default(), Arc::new(Mutex::new(None)));
    let mut all = Election { throne, lines: Vec::new(), stops: Vec::new(), tasks: Vec::new() };
    for who in 0..candidates {
        let faults = Arc::new(Mutex::new(faults.map(|seed| Rng::seeded(seed + who as u64))));
        let line = Line { lease: lease.clone(), cut: Arc::default(), faults, late: Arc::default() };
        let (stop, throne) = (CancellationToken::new(), all.throne.clone());
        let elector = Elector::new(line.clone(), &format!("candidate-{who}"), &Nondet::simulated(who as u64));
        all.lines.push(line);
        all.stops.push(stop.clone());
        let work = move |leadership| throne.clone().sit(who, leadership, stubborn);
        all.tasks.push(tokio::spawn(elector.run(stop, work)));
    }
    all
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_renews_without_changing_hands() {
    let all = election(3, None, false);
    seconds(300).await;
    let (record, _) = all.lines[0].lease.lock().clone().unwrap();
    assert_eq!(all.throne.0.lock().fences.len(), 1);
    assert_eq!(record.transitions, 0);
    assert!(record.renewed > record.acquired);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_at_once() {
    let mut all = election(3, None, false);
    seconds(5).await;
    let first = all.throne.leader().unwrap();
    all.stops[first].cancel();
    all.tasks.remove(first).await.unwrap();
    seconds(5).await;
    assert!(all.throne.leader().is_some_and(|second| second != first));
    assert_eq!(all.lines[0].lease.lock().as_ref().unwrap().0.transitions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ends_before_another_begins_even_if_its_work_will_not() {
    for stubborn in [false, true] {
        let all = election(2, None, stubborn);
        seconds(5).await;
        let first = all.throne.leader().unwrap();
        *all.lines[first].cut.lock() = true;
        seconds(13).await;
        assert_eq!(all.throne.leader(), None, "deposed within the lease");
        seconds(10).await;
        assert_eq!(all.throne.leader(), Some(1 - first));
        *all.lines[first].cut.lock() = false;
        seconds(60).await;
        assert_eq!(all.throne.leader(), Some(1 - first), "the old one waits its turn");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_when_it_was_asked_for_not_from_the_answer() {
    let all = election(2, None, true);
    all.lines.iter().for_each(|line| *line.late.lock() = Duration::from_millis(4_900));
    while all.throne.leader().is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    let first = all.throne.leader().unwrap();
    *all.lines[first].cut.lock() = true;
    *all.lines[1 - first].late.lock() = Duration::ZERO;
    seconds(60).await;
    assert_eq!(all.throne.leader(), Some(1 - first));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn never_do_two_lead_and_with_good_lines_someone_does(
        seed in any::<u32>(), cuts in prop::collection::vec((0usize..3, 1u64..20), 0..12)
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let all = election(3, Some(seed.into()), seed.is_multiple_of(2));
            for (who, time) in cuts {
                let was_cut = std::mem::replace(&mut *all.lines[who].cut.lock(), true);
                *all.lines[who].cut.lock() = !was_cut;
                seconds(time).await;
            }
            for line in &all.lines {
                *line.cut.lock() = false;
                *line.faults.lock() = None;
            }
            seconds(60).await;
            let finished = all.tasks.iter().any(tokio::task::JoinHandle::is_finished);
            assert!(!finished, "no candidate failed");
            assert!(all.throne.leader().is_some(), "with good lines someone leads");
        });
    }
}
