//! `settled`: a cluster without pending work whose counted clients are quiet, and whose plans have no action under way.

use crate::advance::{Advance, Advanced, advance, until_quiet};
use crate::client::Clients;
use crate::client::quiet::Busy;
use crate::clock::Ended;
use crate::clock::driver::Signal;
use crate::error;
use crate::host::Running;
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Time of the cluster without writes after which it may count as settled: longer than the pauses in which controllers batch changes.
const QUIET: Duration = Duration::from_secs(1);
/// The same in real time: longer than a change takes to reach a controller's work queue.
const QUIET_REAL: Duration = Duration::from_millis(100);
/// Longest interval between two checks of a cluster that is busy without writing, in multiples of the quiet time.
const MOST_PAUSES: u32 = 16;
/// The end of a wait for writes that has no end of its own.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The answer of `settled` and `quiet`.
#[derive(Clone, Debug, Serialize)]
pub struct Settled {
    /// Whether it is.
    pub settled: bool,
    /// What is busy.
    pub busy: Vec<Busy>,
    /// Time of the cluster.
    pub time: Timestamp,
    /// Revision of the store.
    pub revision: i64,
    /// Milliseconds of real time that the call took.
    pub waited: u64,
}

/// What a `settled` call waits for, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// Time of the cluster that may pass.
    pub limit: Duration,
    /// Real time for which clients may be busy; in real time also for which the cluster may be.
    pub patience: Duration,
    /// Whether the time of the cluster passes only if this call lets it.
    pub is_virtual: bool,
}

/// The actions of plans, as far as a wait for their end needs them.
pub trait PlannedWork: Sync {
    /// The actions that have fired and are not done, in order.
    fn under_way(&self) -> Vec<Busy>;

    /// Notified, for all waiting, when an action is done.
    fn changed(&self) -> &Notify;
}

/// What has to settle.
#[derive(Clone, Copy)]
pub struct Settling<'a> {
    /// The cluster.
    pub running: &'a Arc<Running>,
    /// Its clients.
    pub clients: &'a Arc<Clients>,
    /// Its plans; `None`: their actions do not count.
    pub plans: Option<&'a dyn PlannedWork>,
}

impl Settling<'_> {
    fn under_way(&self) -> Vec<Busy> {
        self.plans.map(PlannedWork::under_way).unwrap_or_default()
    }

    /// Waits until no action is under way, at most until `end` of real time. Returns the actions that are.
    async fn until_actions_end(&self, end: Instant) -> Vec<Busy> {
        let Some(plans) = self.plans else { return Vec::new() };
        loop {
            let mut changed = std::pin::pin!(plans.changed().notified());
            changed.as_mut().enable();
            let under_way = plans.under_way();
            if under_way.is_empty() || tokio::time::timeout_at(end, changed).await.is_err() {
                return under_way;
            }
        }
    }
}

/// Sets `goal` when the cluster has no pending work. Runs on the cluster's runtime, and takes time there.
fn watch(running: &Arc<Running>, quiet: Duration, goal: &Arc<Signal>) -> AbortOnDropHandle<()> {
    let (watched, goal) = (running.clone(), goal.clone());
    running.spawn(async move {
        let Ok(mut writes) = watched.plane.writes() else { return };
        let (mut pause, end) = (quiet, Instant::now() + FAR);
        loop {
            match writes.is_quiet(pause, end).await {
                Ok(_) => {}
                Err(_) => return,
            }
            match watched.plane.pending_work().await {
                Ok(pending) if pending.is_empty() => break,
                Ok(_) => pause = (2 * pause).min(MOST_PAUSES * quiet),
                Err(_) => return,
            }
        }
        goal.set();
    })
}

/// What is busy in the cluster itself.
async fn pending(running: &Arc<Running>) -> Result<Vec<Busy>, Status> {
    let cluster = running.clone();
    let pending = running.call(async move { cluster.plane.pending_work().await });
    let pending = pending.await.map_err(|_| error::ended())?;
    let reasons = pending.map_err(Status::internal)?.into_reasons();
    Ok(reasons.iter().map(|reason| Busy::of_cluster(reason)).collect())
}

/// Waits until the cluster is settled, or for the limit.
///
/// # Errors
/// 410: the cluster ended.
pub async fn settle(settling: Settling<'_>, how: Settle) -> Result<Settled, Status> {
    let Settling { running, clients, .. } = settling;
    let begin = Clock::real().now();
    let target = running.time().checked_add(how.limit).unwrap_or(Timestamp::MAX);
    loop {
        let settled = match how.is_virtual {
            true => settle_virtual(running, clients, (target, how.patience)).await?,
            false => settle_real(running, clients, how).await?,
        };
        let under_way = settling.under_way();
        match settled {
            Ok(()) if under_way.is_empty() => return Ok(report(running, begin, under_way)),
            Ok(()) => {
                let left = settling.until_actions_end(Instant::now() + how.patience).await;
                if !left.is_empty() {
                    return Ok(report(running, begin, left));
                }
                // What the action did may be work of the cluster.
            }
            Err(mut busy) => {
                if busy.is_empty() {
                    busy = pending(running).await?;
                }
                busy.extend(under_way);
                if busy.is_empty() {
                    busy.push(Busy::of_cluster("objects are still being written"));
                }
                return Ok(report(running, begin, busy));
            }
        }
    }
}

/// Waits in real time until all counted clients are quiet.
///
/// # Errors
/// 410: the cluster ended.
pub async fn quiet(settling: Settling<'_>, patience: Duration) -> Result<Settled, Status> {
    let Settling { running, clients, .. } = settling;
    let (begin, end) = (Clock::real().now(), Instant::now() + patience);
    loop {
        let mut busy = settling.until_actions_end(end).await;
        let left = end.saturating_duration_since(Instant::now());
        let quiet = until_quiet(running, clients, left).await.map_err(|_| error::ended())?;
        busy.extend(quiet.err().unwrap_or_default());
        if !busy.is_empty() || settling.under_way().is_empty() {
            return Ok(report(running, begin, busy));
        }
    }
}

fn report(running: &Running, begin: Timestamp, busy: Vec<Busy>) -> Settled {
    let waited = Clock::real().now().duration_since(begin).as_millis();
    Settled {
        settled: busy.is_empty(),
        busy,
        time: running.time(),
        revision: running.store().revision().0,
        waited: u64::try_from(waited).unwrap_or(0),
    }
}

/// The reasons why the cluster is not settled; without any, its own work was not done at the limit.
type Unsettled = Result<(), Vec<Busy>>;

async fn settle_virtual(
    running: &Arc<Running>,
    clients: &Arc<Clients>,
    (target, patience): (Timestamp, Duration),
) -> Result<Unsettled, Status> {
    // A client that has just been told something counts from the beginning.
    if let Err(busy) = until_quiet(running, clients, patience).await.map_err(|_| error::ended())? {
        return Ok(Err(busy));
    }
    loop {
        let goal = Arc::new(Signal::default());
        let _watch = watch(running, QUIET, &goal);
        let to = Advance { goal: Some(goal), patience, ..Advance::to(target) };
        let Advanced { ended, busy, barriers, .. } =
            advance(running, clients, &to).await.map_err(|_| error::ended())?;
        match ended {
            // A client acted meanwhile: whether the cluster is settled is asked again.
            Ended::Condition if barriers > 0 => {}
            Ended::Condition | Ended::Settled => return Ok(Ok(())),
            Ended::There | Ended::Limit | Ended::Busy => return Ok(Err(busy)),
        }
    }
}

async fn settle_real(
    running: &Arc<Running>,
    clients: &Arc<Clients>,
    how: Settle,
) -> Result<Unsettled, Status> {
    let settling = async {
        loop {
            let goal = Arc::new(Signal::default());
            let _watch = watch(running, QUIET_REAL, &goal);
            goal.wait().await;
            match until_quiet(running, clients, how.patience).await {
                Err(_) => return Err(error::ended()),
                Ok(Err(busy)) => return Ok(Err(busy)),
                Ok(Ok(())) => {}
            }
            if pending(running).await?.is_empty() {
                return Ok(Ok(()));
            }
        }
    };
    match tokio::time::timeout(how.patience, settling).await {
        Ok(settled) => settled,
        Err(_) => Ok(Err(Vec::new())),
    }
}
