//! Latency of puts by one client with and without 10 000 watches of other keys, in turns on one server. The
//! watches are on many streams or on a single one; the results are medians.

use super::limits::{IDLE_WATCHES, ROUNDS};
use super::load::ClientCount;
use super::measure::{self, Bench};
use super::puts::Puts;
use super::row::{Row, Sample, median, ratio};
use super::server::{Durability, Server, ServerKind};
use super::watching::{WatchDistribution, Watching};
use crate::spread::Short;
use std::time::Duration;

/// The latency that idle watches add to a put.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let one = WatchDistribution { connections: 1, streams: 1, watches: IDLE_WATCHES };
    let many = WatchDistribution::of(IDLE_WATCHES);
    Ok(vec![row(&bench, many, "100 streams").await?, row(&bench, one, "one stream").await?])
}

async fn row(bench: &Bench, shape: WatchDistribution, how: &str) -> anyhow::Result<Row> {
    let mut row = Row { target: "≤ 1.10 (ours, with to without)", ..Row::default() };
    row.what = format!("put latency with {IDLE_WATCHES} idle watches on {how} (with none), 1 client");
    for (is_ours, kind) in bench.kinds() {
        let (none, idle) = measure_once(kind, shape).await?;
        let text = format!("{} ({})", Short(median_latency(&idle)), Short(median_latency(&none)));
        let arrow = if is_ours { "→ " } else { "" };
        row.processor.push_str(&format!("{arrow}{:.0} µs ({:.0}) ", idle.processor, none.processor));
        if is_ours {
            row.ours = text;
            row.ratio = ratio(median_latency(&idle).as_secs_f64(), median_latency(&none).as_secs_f64());
        } else {
            row.etcd = text;
        }
    }
    Ok(row)
}

fn median_latency(sample: &Sample) -> Duration {
    sample.latency.as_ref().map_or(Duration::ZERO, |spread| spread.quantile(0.5))
}

async fn measure_once(kind: &ServerKind, shape: WatchDistribution) -> anyhow::Result<(Sample, Sample)> {
    let server = Server::start(kind, Durability::Synced).await?;
    let (mut none, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        none.push(measure::sample(&server, ClientCount::ONE, Puts::of).await?);
        let watching = Watching::open(server.address, shape, "idle").await?;
        idle.push(measure::sample(&server, ClientCount::ONE, Puts::of).await?);
        drop(watching);
    }
    server.kill().await?;
    let median = |samples| median(samples).expect("there are rounds");
    Ok((median(none), median(idle)))
}
