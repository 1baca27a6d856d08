//! Puts while 10 000 watches wait for other keys, and while none does, in turns on one server; the watches on many streams
//! and on a single one. Told are the medians of a single client's latency.

use super::limits::{IDLE_WATCHES, ROUNDS};
use super::load::Crowd;
use super::measure::{self, Bench};
use super::puts::Puts;
use super::row::{Row, Sample, median, ratio};
use super::server::{Durability, Kind, Server};
use super::watching::{Shape, Watching};
use crate::spread::Short;
use std::time::Duration;

/// What idle watches cost a put.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let one = Shape { connections: 1, streams: 1, watches: IDLE_WATCHES };
    let many = Shape::of(IDLE_WATCHES);
    Ok(vec![row(&bench, many, "100 streams").await?, row(&bench, one, "one stream").await?])
}

async fn row(bench: &Bench, shape: Shape, how: &str) -> anyhow::Result<Row> {
    let mut row = Row { target: "≤ 1.10 (ours, with to without)", ..Row::default() };
    row.what = format!("put latency with {IDLE_WATCHES} idle watches on {how} (with none), 1 client");
    for (is_ours, kind) in bench.kinds() {
        let (none, idle) = once(kind, shape).await?;
        let text = format!("{} ({})", Short(half(&idle)), Short(half(&none)));
        let arrow = if is_ours { "→ " } else { "" };
        row.processor.push_str(&format!("{arrow}{:.0} µs ({:.0}) ", idle.processor, none.processor));
        if is_ours {
            row.ours = text;
            row.ratio = ratio(half(&idle).as_secs_f64(), half(&none).as_secs_f64());
        } else {
            row.etcd = text;
        }
    }
    Ok(row)
}

fn half(sample: &Sample) -> Duration {
    sample.latency.as_ref().map_or(Duration::ZERO, |spread| spread.quantile(0.5))
}

async fn once(kind: &Kind, shape: Shape) -> anyhow::Result<(Sample, Sample)> {
    let server = Server::start(kind, Durability::Synced).await?;
    let (mut none, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        none.push(measure::sample(&server, Crowd::ONE, Puts::of).await?);
        let watching = Watching::open(server.address, shape, "idle").await?;
        idle.push(measure::sample(&server, Crowd::ONE, Puts::of).await?);
        drop(watching);
    }
    server.kill().await?;
    let median = |samples| median(samples).expect("there are rounds");
    Ok((median(none), median(idle)))
}
