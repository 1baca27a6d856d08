//! Tests of elections over one lease with slow, failing or broken connections; and of a store that checks
//! fences.

mod faults;
mod records;

use super::*;
use kstore_nondet::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Connection of one candidate to the lease.
#[derive(Clone)]
pub(super) struct Connection {
    lease: Lease,
    cut: Arc<Mutex<bool>>,
    faults: Arc<Mutex<Option<Rng>>>,
    /// Delay of responses to writes.
    late: Arc<Mutex<Duration>>,
    /// Rate of the candidate's clock: a duration that it measures passes in this fraction of real time.
    rate: f64,
}

/// The stored lease, its history, and the writes under its fences.
#[derive(Clone, Default)]
pub(super) struct Lease {
    now: Arc<Mutex<Option<(LeaseRecord, Revision)>>>,
    past: Arc<Mutex<Vec<LeaseRecord>>>,
}

impl Lease {
    fn write(&self, record: &LeaseRecord, at: Option<Revision>) -> Result<Revision, LeaseError> {
        let mut lease = self.now.lock();
        if lease.as_ref().map(|(_, revision)| *revision) != at {
            return Err(LeaseError::Conflict);
        }
        self.past.lock().push(record.clone());
        let next = Revision(self.past.lock().len() as u64);
        *lease = Some((record.clone(), next));
        Ok(next)
    }

    /// Accepts a write only in the term that its fence names.
    fn takes(&self, fence: &Fence) -> bool {
        let lease = self.now.lock();
        lease.as_ref().is_some_and(|(r, _)| r.holder == fence.holder && r.transitions == fence.transitions)
    }

    fn record(&self) -> LeaseRecord {
        self.now.lock().as_ref().expect("there is a lease").0.clone()
    }
}

impl Connection {
    pub(super) fn new(lease: &Lease, faults: Option<Rng>, rate: f64) -> Self {
        let faults = Arc::new(Mutex::new(faults));
        Self { lease: lease.clone(), cut: Arc::default(), faults, late: Arc::default(), rate }
    }

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

    /// Stores a sent request, even if its sender has stopped waiting.
    async fn write(&self, record: &LeaseRecord, at: Option<Revision>) -> Result<Revision, LeaseError> {
        let (connection, mut record) = (self.clone(), record.clone());
        record.duration = record.duration.mul_f64(self.rate);
        let request = tokio::spawn(async move {
            connection.travel().await?;
            let written = connection.lease.write(&record, at);
            let late = *connection.late.lock();
            sleep(late).await;
            connection.travel().await.and(written)
        });
        request.await.expect("a request does not panic")
    }
}

impl LeaseStore for Connection {
    fn namespace(&self) -> &'static str {
        "kube-system"
    }

    fn name(&self) -> &'static str {
        "office"
    }

    async fn get(&self) -> Result<Option<(LeaseRecord, Revision)>, LeaseError> {
        self.travel().await?;
        let stored = self.lease.now.lock().clone();
        let measured =
            |record: LeaseRecord| LeaseRecord { duration: record.duration.div_f64(self.rate), ..record };
        Ok(stored.map(|(record, revision)| (measured(record), revision)))
    }

    async fn create(&self, record: &LeaseRecord) -> Result<Revision, LeaseError> {
        self.write(record, None).await
    }

    async fn replace(&self, record: &LeaseRecord, at: Revision) -> Result<Revision, LeaseError> {
        self.write(record, Some(at)).await
    }
}

/// The current leader, and all terms so far.
#[derive(Clone, Default)]
struct TermMonitor(Arc<Mutex<Terms>>);

#[derive(Default)]
struct Terms {
    leading: Vec<usize>,
    overlaps: u32,
    fences: Vec<Fence>,
}

impl TermMonitor {
    async fn sit(self, who: usize, leadership: Leadership, stubborn: bool) {
        {
            let mut terms = self.0.lock();
            terms.overlaps += u32::from(!terms.leading.is_empty());
            terms.leading.push(who);
            assert!(!terms.fences.contains(leadership.fence()), "a fence names one term");
            terms.fences.push(leadership.fence().clone());
        }
        let _leave = EndTerm(self.clone(), who);
        leadership.lost().cancelled().await;
        if stubborn {
            std::future::pending::<()>().await;
        }
    }

    fn leader(&self) -> Option<usize> {
        self.0.lock().leading.first().copied()
    }

    fn terms(&self) -> usize {
        self.0.lock().fences.len()
    }

    fn assert_never_two(&self) {
        assert_eq!(self.0.lock().overlaps, 0, "two led at once");
    }
}

struct EndTerm(TermMonitor, usize);

impl Drop for EndTerm {
    fn drop(&mut self) {
        self.0.0.lock().leading.retain(|who| *who != self.1);
    }
}

struct Candidates {
    monitor: TermMonitor,
    lease: Lease,
    connections: Vec<Connection>,
    elections: Vec<Election>,
    stops: Vec<CancellationToken>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Candidates {
    fn new() -> Self {
        let (connections, elections, stops, tasks) = Default::default();
        Self {
            monitor: TermMonitor::default(),
            lease: Lease::default(),
            connections,
            elections,
            stops,
            tasks,
        }
    }

    /// Adds a candidate whose clock runs at `rate`.
    fn join(&mut self, faults: Option<u64>, stubborn: bool, rate: f64) {
        let who = self.connections.len();
        let connection =
            Connection::new(&self.lease, faults.map(|seed| Rng::seeded(seed + who as u64)), rate);
        let mut options = ElectorOptions::new(&format!("candidate-{who}"));
        for duration in [&mut options.lease, &mut options.renew, &mut options.retry] {
            *duration = duration.div_f64(rate);
        }
        options.name = "office".into();
        let elector = Elector::unchecked(connection.clone(), options, &Nondet::simulated(who as u64));
        let (stop, monitor) = (CancellationToken::new(), self.monitor.clone());
        self.connections.push(connection);
        self.elections.push(elector.election());
        self.stops.push(stop.clone());
        let work = move |leadership| monitor.clone().sit(who, leadership, stubborn);
        self.tasks.push(tokio::spawn(elector.run(stop, work)));
    }
}

fn candidates(candidates: usize, faults: Option<u64>, stubborn: bool) -> Candidates {
    let mut all = Candidates::new();
    (0..candidates).for_each(|_| all.join(faults, stubborn, 1.0));
    all
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_renews_without_changing_hands() {
    let all = candidates(3, None, false);
    seconds(300).await;
    assert_eq!(all.monitor.terms(), 1);
    assert!(all.lease.record().renewed > all.lease.record().acquired);
    let leader = all.monitor.leader().unwrap();
    for (who, election) in all.elections.iter().enumerate() {
        assert_eq!(election.leader().as_deref(), Some(format!("candidate-{leader}").as_str()));
        assert_eq!((election.is_leading(), election.renewals_with_read()), (who == leader, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_releases_the_lease_at_once() {
    let mut all = candidates(3, None, false);
    seconds(5).await;
    let first = all.monitor.leader().unwrap();
    all.stops[first].cancel();
    all.tasks.remove(first).await.unwrap();
    seconds(5).await;
    assert!(all.monitor.leader().is_some_and(|second| second != first));
    assert_eq!(all.lease.record().transitions, 1);
}

/// Regression from cilium: a hanging stop hook kept the old leader working while the next one led.
#[tokio::test(start_paused = true)]
async fn work_blocked_in_its_stop_hook_does_not_overlap_with_the_next_leader() {
    for stubborn in [false, true] {
        let all = candidates(2, None, stubborn);
        seconds(5).await;
        let first = all.monitor.leader().unwrap();
        *all.connections[first].cut.lock() = true;
        seconds(13).await;
        assert_eq!(all.monitor.leader(), None, "deposed within the lease");
        seconds(10).await;
        assert_eq!(all.monitor.leader(), Some(1 - first));
        *all.connections[first].cut.lock() = false;
        seconds(60).await;
        assert_eq!(all.monitor.leader(), Some(1 - first), "the old one waits its turn");
        all.monitor.assert_never_two();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_request_not_from_the_response() {
    let all = candidates(2, None, true);
    all.connections.iter().for_each(|connection| *connection.late.lock() = Duration::from_millis(4_900));
    while all.monitor.leader().is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    let first = all.monitor.leader().unwrap();
    *all.connections[first].cut.lock() = true;
    *all.connections[1 - first].late.lock() = Duration::ZERO;
    seconds(60).await;
    assert_eq!(all.monitor.leader(), Some(1 - first));
    all.monitor.assert_never_two();
}

#[tokio::test(start_paused = true)]
async fn one_hung_request_does_not_cost_the_lease() {
    let all = candidates(1, None, false);
    seconds(3).await;
    *all.connections[0].late.lock() = Duration::from_secs(3_600);
    seconds(4).await;
    *all.connections[0].late.lock() = Duration::ZERO;
    seconds(60).await;
    assert_eq!((all.monitor.leader(), all.monitor.terms()), (Some(0), 1));
    assert!(all.elections[0].renewals_with_read() >= 1, "what the hung request did had to be read");
}

#[tokio::test(start_paused = true)]
async fn each_new_leader_is_reported_once() {
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut all = Candidates::new();
    all.join(None, false, 1.0);
    seconds(1).await;
    let (connection, stop, log) =
        (Connection::new(&all.lease, None, 1.0), CancellationToken::new(), reported.clone());
    let elector = Elector::new(connection, "watcher", Nondet::simulated(7))
        .on_new_leader(move |leader| log.lock().push(leader.to_owned()));
    tokio::spawn(elector.run(stop.clone(), |leadership| async move { leadership.lost().cancelled().await }));
    seconds(30).await;
    all.stops[0].cancel();
    seconds(30).await;
    assert_eq!(*reported.lock(), ["candidate-0", "watcher"]);
}
