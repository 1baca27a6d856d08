//! Latency from a message of the source to the start of a controller's run, in process and idle.

use super::corpus::{Generated, Slim};
use super::ours::KstoreCache;
use anyhow::Context;
use kstore_informer::{Action, Controller, Frame, Object};
use kstore_nondet::Nondet;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const EVENTS: usize = 5_000;

/// Measures, and returns a line with the median and the 99th percentile.
pub(crate) fn measure() -> anyhow::Result<String> {
    let mut ours = KstoreCache::<Slim>::full(1_000)?;
    let (started, mut runs) = mpsc::channel(1_000);
    let stop = CancellationToken::new();
    let controller =
        Controller::new("bench", Nondet::simulated(1)).watch(&ours.informer, |slim: &Slim| Some(slim.key()));
    let run = controller.run(stop.clone(), move |_| {
        let delivered = started.try_send(Instant::now());
        async move { delivered.map(|()| Action::Done) }
    });
    let _task = ours.runtime.spawn(run);
    let sender = ours.senders[0].clone();
    let mut spans = ours.runtime.block_on(async {
        for _ in 0..ours.objects {
            runs.recv().await.context("the first state runs")?;
        }
        let mut spans = Vec::with_capacity(EVENTS);
        for number in 0..EVENTS {
            ours.revision += 1;
            let frame = Frame::Put(Slim::generate(number % ours.objects, ours.revision));
            let start = Instant::now();
            sender.send(Ok(vec![frame])).await.ok().context("the informer runs")?;
            let at = runs.recv().await.context("the change runs")?;
            spans.push((at - start).as_secs_f64() * 1e6);
        }
        anyhow::Ok(spans)
    })?;
    stop.cancel();
    spans.sort_by(f64::total_cmp);
    let at = |part: usize| spans[(spans.len() - 1) * part / 100];
    Ok(format!("event to start of a run, idle, one thread: median {:.1} µs, p99 {:.1} µs", at(50), at(99)))
}
