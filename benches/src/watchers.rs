//! Watchers of pods over TLS, each on its own connection, during patches at a steady rate: delivered events,
//! and their latency from the sending of the write. Once as nodes watch (each its own pods, by an index),
//! once with all watchers on everything. Then without a rate limit: events per second with all watchers on
//! everything, and the server's CPU time per event.

use crate::binary::Binary;
use crate::connection::{Connection, Stream};
use crate::limits::{FLOOD_UPDATES, UPDATERS, UPDATES, UPDATES_SHARED, WATCHED_PODS, WATCHERS};
use crate::measurement::Measurement;
use crate::pods::{self, NODES, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::processor_seconds;
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Time without events after which a watcher has missed one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between the start of the watches and the first update.
const LEAD: Duration = Duration::from_millis(500);

/// The selection of a watcher.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// The pods of one node.
    Node,
    /// All pods.
    Everything,
}

/// Measures deliveries and their latency.
pub(crate) async fn measure(binary: Binary, scope: Scope) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let (rate, each) = match scope {
        Scope::Node => (UPDATES, UPDATES * SECONDS / NODES),
        Scope::Everything => (UPDATES_SHARED, UPDATES_SHARED * SECONDS),
    };
    let streams = open(&server, scope).await?;
    let epoch = Instant::now();
    let mut watchers = JoinSet::new();
    for stream in streams {
        watchers.spawn(watch(stream, epoch, each));
    }
    let begin = Instant::now() + LEAD;
    let took = update_all(&server, UpdateRate { count: rate * SECONDS, rate, epoch, begin }).await?;
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
    let expected = WATCHERS * each;
    let delivered = format!("{} of {expected}, {}", latencies.len(), Spread::of(latencies).latency());
    Ok(vec![Measurement::new(what, "", delivered)])
}

/// Measures the largest event rate with all watchers on everything.
pub(crate) async fn flood(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let Flood { update_rate, events, bytes, seconds, processor } = flooded(&binary).await?;
    let expected = WATCHERS * FLOOD_UPDATES;
    let what = format!("{WATCHERS} watchers of all pods, {FLOOD_UPDATES} updates at {update_rate:.0}/s");
    let sent = format!(
        "{events} of {expected}, {:.0} events/s, {:.0} MiB/s; the server's processor time: {:.1} µs an event",
        events as f64 / seconds,
        bytes as f64 / f64::from(1 << 20) / seconds,
        processor * 1e6 / events as f64
    );
    Ok(vec![Measurement::new(what, "", sent)])
}

/// The result of patching pods as fast as the server accepts it with [`WATCHERS`] watchers of all pods.
pub(crate) struct Flood {
    /// Patches per second.
    pub(crate) update_rate: f64,
    /// Number of events that all watchers read.
    pub(crate) events: usize,
    /// Bytes of these events.
    pub(crate) bytes: usize,
    /// From the first patch to the last event.
    pub(crate) seconds: f64,
    /// CPU time of the server, in seconds.
    pub(crate) processor: f64,
}

/// Runs a flood, see [`Flood`].
pub(crate) async fn flooded(binary: &Binary) -> anyhow::Result<Flood> {
    let server = Server::start_with(binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let mut watchers = JoinSet::new();
    for stream in open(&server, Scope::Everything).await? {
        watchers.spawn(count(stream, FLOOD_UPDATES));
    }
    tokio::time::sleep(LEAD).await;
    let before = processor_seconds(server.id()?)?;
    let begin = Instant::now();
    let pace = UpdateRate { count: FLOOD_UPDATES, rate: usize::MAX, epoch: begin, begin };
    let updated = update_all(&server, pace).await?;
    let (mut events, mut bytes) = (0, 0);
    while let Some(watcher) = watchers.join_next().await {
        let (lines, length) = watcher??;
        (events, bytes) = (events + lines, bytes + length);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let processor = processor_seconds(server.id()?)? - before;
    server.kill().await?;
    Ok(Flood { update_rate: FLOOD_UPDATES as f64 / updated.as_secs_f64(), events, bytes, seconds, processor })
}

/// Creates the pods and opens the watches, each on its own connection.
async fn open(server: &Server, scope: Scope) -> anyhow::Result<Vec<Stream>> {
    pods::create(server, WATCHED_PODS).await?;
    let version = server.connect().await?.get(&format!("{PODS}?limit=1")).await?.1;
    let version: serde_json::Value = serde_json::from_slice(&version)?;
    let version = version["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut streams = Vec::new();
    for watcher in 0..WATCHERS {
        let selector = match scope {
            Scope::Node => format!("&fieldSelector=spec.nodeName%3D{}", pods::node(watcher % NODES)),
            Scope::Everything => String::new(),
        };
        let path = format!("{PODS}?watch=1&resourceVersion={version}{selector}");
        streams.push(server.connect().await?.stream(&path).await?);
    }
    Ok(streams)
}

/// The rate and number of updates.
#[derive(Clone, Copy)]
struct UpdateRate {
    count: usize,
    /// Updates per second.
    rate: usize,
    epoch: Instant,
    begin: Instant,
}

/// Sends all updates. Returns the elapsed time.
async fn update_all(server: &Server, pace: UpdateRate) -> anyhow::Result<Duration> {
    let mut updaters = JoinSet::new();
    for updater in 0..UPDATERS {
        updaters.spawn(update(server.connect().await?, updater, pace));
    }
    while let Some(updater) = updaters.join_next().await {
        updater??;
    }
    Ok(pace.begin.elapsed())
}

/// Duration of updates, in seconds.
const SECONDS: usize = 5;

/// Patches pods at this updater's share of the rate; each patch contains its time of sending.
async fn update(mut connection: Connection, updater: usize, pace: UpdateRate) -> anyhow::Result<()> {
    for nth in (updater..pace.count).step_by(UPDATERS) {
        sleep_until(pace.begin + Duration::from_secs_f64(nth as f64 / pace.rate as f64)).await;
        let sent = pace.epoch.elapsed().as_micros().to_string();
        let patch = json!({"metadata": {"annotations": {"example.com/sent": sent}}});
        let path = format!("{PODS}/{}", pods::name(nth % WATCHED_PODS));
        connection.patch(&path, Bytes::from(patch.to_string())).await?;
    }
    Ok(())
}

/// Reads `expected` events. Returns their number and bytes.
async fn count(mut stream: Stream, expected: usize) -> anyhow::Result<(usize, usize)> {
    let (mut lines, mut length) = (0, 0);
    while lines < expected {
        let Ok(bytes) = tokio::time::timeout(PATIENCE, stream.bytes()).await else { break };
        let Some(bytes) = bytes? else { break };
        lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        length += bytes.len();
    }
    Ok((lines, length))
}

/// Reads `expected` events. Returns the latency of each.
async fn watch(mut stream: Stream, epoch: Instant, expected: usize) -> anyhow::Result<Vec<Duration>> {
    const SENT: &[u8] = b"\"example.com/sent\":\"";
    let mut latencies = Vec::new();
    while latencies.len() < expected {
        let Ok(line) = tokio::time::timeout(PATIENCE, stream.line()).await else { break };
        let Some(line) = line? else { break };
        let now = epoch.elapsed();
        let Some(at) = line.windows(SENT.len()).position(|window| window == SENT) else { continue };
        let digits = line[at + SENT.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let sent = digits.fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        latencies.push(now.saturating_sub(Duration::from_micros(sent)));
    }
    Ok(latencies)
}
