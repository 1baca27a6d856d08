//! The judge of client histories over real connections: a real etcd passes and so does ours; a server that does one thing
//! wrong does not, whatever it is.

use kstore_checker::grpc::{Mix, Plan, Recording, Workload};
use kstore_checker::{Guarantee, Verdict, judge};
use kstore_etcd::Options;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use kstore_tests::{Etcd, Middleman, Wrong};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A store in `dir`, served; its URL.
async fn serve(dir: &Path, stop: CancellationToken) -> String {
    let store = Store::open(Config::durable(dir), Nondet::real()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(kstore_etcd::serve(store, listener, Options::plain(url.clone()), stop));
    url
}

async fn record(plan: Plan, seconds: u64) -> Recording {
    let workload = Workload::start(plan).await.unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    workload.finish().await.unwrap()
}

/// Traffic of both mixes against one server; everything must hold.
async fn must_pass(what: &str, url: &str, seconds: u64) {
    for (mix, seconds) in [(Mix::Etcd, seconds * 2 / 3), (Mix::Kubernetes, seconds / 3)] {
        let plan = Plan { mix, timeout: Duration::from_secs(5), lease_ttl: 2, ..Plan::new(url, 7) };
        let recording = record(plan, seconds).await;
        let verdict = judge(&recording.history);
        assert!(verdict.is_good() && recording.complete, "{what}, {mix:?}: {verdict}");
        let counts = verdict.counts;
        assert!(
            counts.calls > 500 && counts.events > 500 && counts.watches > 3,
            "{what}, {mix:?}: {verdict}"
        );
        println!("{what}, {mix:?}: {verdict}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_etcd_passes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else {
        eprintln!("SKIPPED: a_real_etcd_passes, since no etcd is installed");
        return;
    };
    must_pass("etcd", etcd.url(), 15).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_passes() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let url = serve(dir.path(), stop.clone()).await;
    must_pass("kstore", &url, 9).await;
    stop.cancel();
}

/// A few seconds of traffic with somebody in between who does wrong.
async fn spoiled(wrong: Wrong) -> Verdict {
    let (dir, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let url = serve(dir.path(), stop.clone()).await;
    let between = Middleman::start(&url, wrong, stop.clone()).await;
    let plan = Plan { timeout: Duration::from_secs(5), rate: 500, ..Plan::new(between, 11) };
    let recording = record(plan, 3).await;
    stop.cancel();
    judge(&recording.history)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_wrong_on_the_way_is_found_out() {
    let cases: [(Wrong, &[Guarantee]); 7] = [
        (Wrong::Nothing, &[]),
        // The first of a watch's events, the last before word of progress, and the others.
        (Wrong::Drop, &[Guarantee::Reliable, Guarantee::Resumable, Guarantee::Bookmarkable]),
        (Wrong::Repeat, &[Guarantee::Unique]),
        (Wrong::Reorder, &[Guarantee::Ordered]),
        (Wrong::Stale, &[Guarantee::Linearizable]),
        (Wrong::PrevKv, &[Guarantee::PrevKv]),
        (Wrong::Forget, &[Guarantee::Linearizable, Guarantee::OneHistory]),
    ];
    let verdicts = futures::future::join_all(cases.iter().map(|(wrong, _)| spoiled(*wrong))).await;
    for ((wrong, guarantees), verdict) in cases.iter().zip(verdicts) {
        if guarantees.is_empty() {
            assert!(verdict.is_good(), "{wrong:?}: {verdict}");
        } else {
            let named = guarantees.iter().any(|guarantee| verdict.breaks(*guarantee));
            assert!(named, "{wrong:?} must break one of {guarantees:?}: {verdict}");
        }
    }
}
