//! 1000 watches of one prefix during puts of 256 B by 100 clients: events delivered per second, from the
//! first put to the last event.

use super::limits::{ROUNDS, VALUE_BYTES, WATCHED_PUTS, WATCHES};
use super::load::{self, ClientCount, RequestSource};
use super::measure::Bench;
use super::request::{PUT, key, put, value};
use super::row::{Row, Sample, median};
use super::server::{Durability, Server, ServerKind};
use super::watching::{WatchDistribution, Watching};
use kstore_proto::etcd::etcdserverpb::PutRequest;
use tokio::time::Instant;

/// The number of remaining puts.
struct Countdown(usize);

impl RequestSource for Countdown {
    type Request = PutRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, PutRequest)> {
        self.0 = self.0.checked_sub(1)?;
        Some((PUT, put(key("watched", self.0), value(VALUE_BYTES))))
    }
}

/// Events per second, and the server's CPU time per event.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let (mut etcd, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (is_ours, kind) in bench.kinds() {
            let sample = measure_once(kind).await?;
            if is_ours { ours.push(sample) } else { etcd.push(sample) }
        }
    }
    let what = format!("events to {WATCHES} watches of one prefix");
    let ours = median(ours).expect("ours is always measured");
    Ok(vec![Row::rates(what, "≥ 5×", median(etcd).as_ref(), &ours)])
}

async fn measure_once(kind: &ServerKind) -> anyhow::Result<Sample> {
    let server = Server::start(kind, Durability::Synced).await?;
    let mut watching = Watching::open(server.address, WatchDistribution::of(WATCHES), "watched").await?;
    let (before, start) = (server.processor_seconds()?, Instant::now());
    let events = WATCHED_PUTS * WATCHES;
    let puts = load::run(server.address, ClientCount::of(100), None, |_| Countdown(WATCHED_PUTS));
    tokio::try_join!(puts, watching.events(events))?;
    let (elapsed, processor) = (start.elapsed(), server.processor_seconds()? - before);
    server.kill().await?;
    let events = events as f64;
    Ok(Sample { rate: events / elapsed.as_secs_f64(), processor: processor * 1e6 / events, latency: None })
}
