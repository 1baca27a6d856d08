//! Watchers of pods over TLS, each on a connection of its own, while pods are patched at a steady rate: what arrived, and how long
//! after the write was sent. Once as nodes watch (each its own pods, found by the index), once everybody watches everything.

use crate::binary::Binary;
use crate::connection::{Connection, Stream};
use crate::figure::Figure;
use crate::limits::{UPDATERS, UPDATES, UPDATES_SHARED, WATCHED_PODS, WATCHERS};
use crate::pods::{self, NODES, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// After the last update a watcher that hears nothing for so long has heard all.
const QUIET: Duration = Duration::from_secs(2);

/// How long after the start of the watches the updates begin.
const LEAD: Duration = Duration::from_millis(500);

/// What a watcher watches.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// The pods of one node.
    Node,
    /// All pods.
    Everything,
}

/// Deliveries and their latency.
pub(crate) async fn measure(binary: Binary, scope: Scope) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    pods::create(&server, WATCHED_PODS).await?;
    let version = server.connect().await?.get(&format!("{PODS}?limit=1")).await?.1;
    let version: serde_json::Value = serde_json::from_slice(&version)?;
    let version = version["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let (rate, expected) = match scope {
        Scope::Node => (UPDATES, UPDATES * SECONDS),
        Scope::Everything => (UPDATES_SHARED, UPDATES_SHARED * SECONDS * WATCHERS),
    };
    let epoch = Instant::now();
    let mut watchers = JoinSet::new();
    for watcher in 0..WATCHERS {
        let selector = match scope {
            Scope::Node => format!("&fieldSelector=spec.nodeName%3D{}", pods::node(watcher % NODES)),
            Scope::Everything => String::new(),
        };
        let path = format!("{PODS}?watch=1&resourceVersion={version}{selector}");
        watchers.spawn(watch(server.connect().await?.stream(&path).await?, epoch));
    }
    let begin = Instant::now() + LEAD;
    let mut updaters = JoinSet::new();
    for updater in 0..UPDATERS {
        updaters.spawn(update(server.connect().await?, updater, rate, epoch, begin));
    }
    while let Some(updater) = updaters.join_next().await {
        updater??;
    }
    let took = begin.elapsed();
    let mut latencies = Vec::new();
    while let Some(watcher) = watchers.join_next().await {
        latencies.append(&mut watcher??);
    }
    server.kill().await?;
    let whose = match scope {
        Scope::Node => "of their node's pods",
        Scope::Everything => "of all pods",
    };
    let real = (rate * SECONDS) as f64 / took.as_secs_f64();
    let what = format!("{WATCHERS} watchers {whose}, {real:.0} updates/s, from PATCH sent to event read");
    let delivered = format!("{} of {expected}, {}", latencies.len(), Spread::of(latencies).latency());
    Ok(vec![Figure::new(what, "", delivered)])
}

/// For how many seconds pods are updated.
const SECONDS: usize = 5;

/// Patches pods at this updater's part of the rate, with the time of sending inside.
async fn update(
    mut connection: Connection,
    updater: usize,
    rate: usize,
    epoch: Instant,
    begin: Instant,
) -> anyhow::Result<()> {
    for nth in (updater..rate * SECONDS).step_by(UPDATERS) {
        sleep_until(begin + Duration::from_secs_f64(nth as f64 / rate as f64)).await;
        let sent = epoch.elapsed().as_micros().to_string();
        let patch = json!({"metadata": {"annotations": {"example.com/sent": sent}}});
        let path = format!("{PODS}/{}", pods::name(nth % WATCHED_PODS));
        connection.patch(&path, Bytes::from(patch.to_string())).await?;
    }
    Ok(())
}

/// Reads events until there are no more; how old each was.
async fn watch(mut stream: Stream, epoch: Instant) -> anyhow::Result<Vec<Duration>> {
    const SENT: &[u8] = b"\"example.com/sent\":\"";
    let mut latencies = Vec::new();
    // Before the first update and between two of them it is quiet for longer than at the end.
    let patience =
        |heard: bool| if heard { QUIET } else { QUIET + LEAD + Duration::from_secs(SECONDS as u64) };
    while let Ok(line) = tokio::time::timeout(patience(!latencies.is_empty()), stream.line()).await {
        let Some(line) = line? else { break };
        let now = epoch.elapsed();
        let Some(at) = line.windows(SENT.len()).position(|window| window == SENT) else { continue };
        let digits = line[at + SENT.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let sent = digits.fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        latencies.push(now.saturating_sub(Duration::from_micros(sent)));
    }
    Ok(latencies)
}
