//! Advances: stops of the cluster's clock and barriers in real time between them, until a time, a goal or a limit.

use crate::client::quiet::Busy;
use crate::client::{Clients, Looks, process};
use crate::clock::driver::{Move, MoveEnd, Signal};
use crate::clock::{Ended, Step, StepFacts, next_step};
use crate::host::{self, Running};
use crate::limits;
use jiff::Timestamp;
use kstore_nondet::Clock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What an advance waits for.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The clock does not pass this time.
    pub target: Timestamp,
    /// Largest number of stops; 1 goes to the next deadline.
    pub stops: u64,
    /// Ends the advance early when it is set, on the cluster's runtime.
    pub goal: Option<Arc<Signal>>,
    /// Real time for which counted clients may be busy.
    pub patience: Duration,
    /// Cluster time that deliveries may share a barrier.
    pub granule: Duration,
}

impl Advance {
    /// An advance to a time, with the default patience.
    pub fn to(target: Timestamp) -> Self {
        Self { target, stops: limits::STOPS, goal: None, patience: limits::PATIENCE, granule: Duration::ZERO }
    }
}

/// The result of an advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advanced {
    /// Time of the cluster before.
    pub from: Timestamp,
    /// Time of the cluster after.
    pub time: Timestamp,
    /// Times to which the clock moved. Some are boundaries of tokio's timer wheel, at which nothing happens.
    pub stops: u64,
    /// How often the cluster waited for clients.
    pub barriers: u64,
    /// Why it ended.
    pub ended: Ended,
    /// What is busy, if it ended so.
    pub busy: Vec<Busy>,
    /// Revision of the store after.
    pub revision: i64,
}

/// Lets the time of a cluster pass, one call at a time. Returns early if the caller drops the future: the clock stops at once, and what has
/// happened stays.
///
/// # Errors
/// The cluster ended.
pub async fn advance(
    running: &Arc<Running>,
    clients: &Arc<Clients>,
    how: &Advance,
) -> Result<Advanced, host::Ended> {
    let (from, first_stop) = (running.time(), running.driver.stops());
    let (mut barriers, mut has_ended, mut busy) = (0, None, Vec::new());
    loop {
        idle(running).await?;
        let made = running.driver.stops() - first_stop;
        let facts = StepFacts {
            has_traffic: running.driver.has_traffic()
                || running.driver.calls() > 0
                || clients.has_in_flight()
                || clients.order().busy().is_some(),
            has_goal: how.goal.as_ref().is_some_and(|goal| goal.is_set()),
            is_there: running.time() >= how.target,
            is_exhausted: has_ended == Some(MoveEnd::Stopped) || made >= how.stops,
        };
        match next_step(facts) {
            Step::Barrier => {
                barriers += 1;
                if let Err(reasons) = until_quiet(running, clients, how.patience).await? {
                    busy = reasons;
                    break finish(running, from, (made, barriers, Ended::Busy, busy));
                }
            }
            Step::End(Ended::Limit) if how.stops == 1 => {
                break finish(running, from, (made, barriers, Ended::There, busy));
            }
            Step::End(ended) => break finish(running, from, (made, barriers, ended, busy)),
            Step::Move => has_ended = Some(pass(running, how, how.stops.saturating_sub(made)).await?),
        }
    }
}

fn finish(
    running: &Running,
    from: Timestamp,
    (stops, barriers, ended, busy): (u64, u64, Ended, Vec<Busy>),
) -> Result<Advanced, host::Ended> {
    let (time, revision) = (running.time(), running.store().revision().0);
    Ok(Advanced { from, time, stops, barriers, ended, busy, revision })
}

/// Waits until no task of the cluster is ready.
pub async fn idle(running: &Arc<Running>) -> Result<(), host::Ended> {
    let driver = running.driver.clone();
    running.call(async move { driver.until_idle().await }).await
}

/// Lets time pass once.
async fn pass(running: &Arc<Running>, how: &Advance, stops: u64) -> Result<MoveEnd, host::Ended> {
    let (driver, clock) = (running.driver.clone(), running.plane.nondet().clock);
    let (target, goal, granule) = (how.target, how.goal.clone(), how.granule);
    let moving = async move {
        let left = Duration::try_from(target.duration_since(clock.now())).unwrap_or_default();
        driver.pass(Move { target: Instant::now() + left, stops, granule, goal }).await
    };
    running.call(moving).await
}

/// Waits in real time until the cluster has no ready task and all counted clients are quiet. The inner error lists who is busy when the
/// patience has run out.
///
/// # Errors
/// The cluster ended.
pub async fn until_quiet(
    running: &Arc<Running>,
    clients: &Arc<Clients>,
    patience: Duration,
) -> Result<Result<(), Vec<Busy>>, host::Ended> {
    let [mut pause, longest] = limits::LOOKS;
    let (clock, mut before) = (Clock::real(), None);
    let end = clock.now().saturating_add(patience).unwrap_or(Timestamp::MAX);
    let mut nth = 0_u32;
    loop {
        nth = nth.wrapping_add(1);
        running.driver.take_traffic();
        idle(running).await?;
        let mut looks = glance(clients, before.as_ref());
        let mut busy = clients.busy(&looks);
        if is_whole(nth, &busy, clock.now() >= end) {
            // Before the look at the processes: what the listener answers until then makes one of them run.
            let at_listener = at_listener(clients).await;
            looks = look(clients, before.as_ref());
            busy = clients.busy(&looks);
            busy.extend(at_listener);
        }
        busy.extend(outside(running.driver.calls()));
        busy.extend(clients.order().busy().map(waits));
        if busy.is_empty() && !running.driver.has_traffic() {
            return Ok(Ok(()));
        }
        if clock.now() >= end {
            return Ok(Err(busy));
        }
        before = Some(looks.now);
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(longest);
    }
}

/// Whether the `nth` look at clients must read all processes and connections, after a look at the known processes alone found `busy`. It
/// must before clients count as quiet, and at the end of the patience, when all reasons are listed. Every few looks do so anyway, since
/// known processes may be gone.
pub(crate) fn is_whole(nth: u32, busy: &[Busy], is_over: bool) -> bool {
    busy.is_empty() || is_over || nth.is_multiple_of(limits::WHOLE_LOOKS)
}

/// Why the listener is not quiet although no request tells of it yet: its clients sent bytes that it has not read, or it is about to answer
/// some, such as those of a TLS handshake, for which the client sleeps. Asked on a task of its own: the caller may be a call of the lab,
/// whose connection counts as served whenever it is polled.
async fn at_listener(clients: &Arc<Clients>) -> Option<Busy> {
    let clients = clients.clone();
    let served = tokio::spawn(async move { clients.has_unread() || clients.edge().is_busy() });
    let what = "a connection is being served".to_owned();
    let is_served = served.await.unwrap_or_default();
    is_served.then(|| Busy { part: "listener".to_owned(), what, client: String::new() })
}

/// The reason if the cluster waits for answers of other servers.
fn outside(calls: usize) -> Option<Busy> {
    let what = match calls {
        0 => return None,
        1 => "1 call waits for an answer".to_owned(),
        calls => format!("{calls} calls wait for an answer"),
    };
    Some(Busy { part: "webhooks and other servers".to_owned(), what, client: String::new() })
}

/// The reason if something waits for its turn in the serial order.
fn waits(what: String) -> Busy {
    Busy { part: "serial order".to_owned(), what, client: String::new() }
}

/// Looks at the processes of counted clients that are known already, and at no connection: both are dear on a machine with many of them.
pub(crate) fn glance<'b>(
    clients: &Clients,
    before: Option<&'b BTreeMap<u32, process::ProcessSample>>,
) -> Looks<'b> {
    let samples = clients.processes().into_iter();
    let now = samples.filter_map(|process| Some((process, process::sample_known(process)?))).collect();
    Looks { now, before, sockets: BTreeMap::new() }
}

/// Looks at the processes of counted clients and at all connections.
pub(crate) fn look<'b>(
    clients: &Clients,
    before: Option<&'b BTreeMap<u32, process::ProcessSample>>,
) -> Looks<'b> {
    // What leaves a socket makes its process run, so the processes come last.
    let sockets = clients.queues();
    let samples = clients.processes().into_iter();
    let now = samples.filter_map(|process| Some((process, process::sample(process)?))).collect();
    Looks { now, before, sockets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_looks_find_that_all_are_quiet_and_list_all_reasons() {
        let busy = [Busy::of_client("op", "runs")];
        assert!(is_whole(1, &[], false), "a glance may have missed something");
        assert!(is_whole(1, &busy, true), "the patience is over");
        let whole = (1..=2 * limits::WHOLE_LOOKS).filter(|nth| is_whole(*nth, &busy, false));
        assert_eq!(whole.count(), 2);
    }
    /// Regression: a program in its TLS handshake sleeps until it is answered, and counted as quiet meanwhile.
    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn bytes_that_the_listener_has_not_read_keep_it_busy() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (clients, address) = (Arc::new(Clients::default()), socket.local_addr().unwrap());
        clients.listen_on(address.port());
        assert_eq!(at_listener(&clients).await, None);
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let served = "listener: a connection is being served";
        assert_eq!(at_listener(&clients).await.unwrap().line(), served, "it is not accepted");
        let (mut accepted, _, _open) = clients.open().accept(&socket).await.unwrap();
        assert_eq!(at_listener(&clients).await, None);
        client.write_all(b"hello").await.unwrap();
        assert_eq!(at_listener(&clients).await.unwrap().line(), served);
        accepted.read_exact(&mut [0; 5]).await.unwrap();
        assert_eq!(at_listener(&clients).await, None);
    }
}
