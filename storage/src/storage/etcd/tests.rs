//! Panics in the background tasks of an external etcd, without an etcd. Requests are tested against a real
//! etcd in `tests/sim/etcd_adapter.rs`.

use super::*;
use crate::metrics::Metrics;
use std::io;
use tracing::span;

/// A network in which every connection is refused.
struct NoNetwork;

#[async_trait]
impl Dial for NoNetwork {
    async fn dial(&self, _: &Url) -> io::Result<Box<dyn Wire>> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

/// A log subscriber that panics at each warning, like a bug in the middle of a task.
struct PanicsAtWarnings;

impl tracing::Subscriber for PanicsAtWarnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().ends_with("::compact")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        panic!("a bug at {}", event.metadata().name());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn restarts_of_tasks_on_an_external_etcd_are_counted_with_those_of_the_server() {
    let _subscriber = tracing::subscriber::set_default(PanicsAtWarnings);
    let config = Config {
        members: vec!["http://a:1".parse().unwrap()],
        prefix: "/registry".to_owned(),
        user: None,
        compaction: Duration::from_secs(1),
    };
    let (storage, work) = Etcd::new(&config, Arc::new(NoNetwork), &Rng::seeded(1)).unwrap();
    let metrics = Metrics::default();
    let measured = metrics.measure(storage);
    let work = tokio::spawn(work);
    let line = "kstore_apiserver_task_restarts_total{task=\"etcd-compaction\"} 2\n";
    let counted = async {
        while !metrics.render(kstore_api::version::Minor::DEFAULT, std::iter::empty()).contains(line) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3_600), counted).await.unwrap();
    measured.close().await;
    work.await.unwrap();
}
