//! The judge of client histories over real connections: a real etcd passes and so does ours; a server that does one thing
//! wrong does not, whatever it is.

use kstore_checker::grpc::{Mix, Plan, Recording, Workload};
use kstore_checker::{Guarantee, Verdict, judge};
use kstore_etcd::Options;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use kstore_tests::{Etcd, Middleman, Wrong};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A store, served; its URL.
async fn serve(config: Config, stop: CancellationToken) -> String {
    let store = Store::open(config, Nondet::real()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(kstore_etcd::serve(store, listener, Options::plain(url.clone()), stop));
    url
}

/// Some time of traffic, and however slow the machine is, some calls.
async fn record(plan: Plan, seconds: u64, calls: u64) -> Recording {
    let workload = Workload::start(plan).await.unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    workload.reached(calls).await;
    workload.finish().await.unwrap()
}

/// Traffic of both mixes against one server; everything must hold.
async fn must_pass(what: &str, url: &str, seconds: u64) {
    for (mix, seconds) in [(Mix::Etcd, seconds * 2 / 3), (Mix::Kubernetes, seconds / 3)] {
        let plan = Plan { mix, timeout: Duration::from_secs(5), lease_ttl: 2, ..Plan::new(url, 7) };
        let recording = record(plan, seconds, 600).await;
        let verdict = judge(&recording.history);
        assert!(verdict.is_good() && recording.complete, "{what}, {mix:?}: {verdict}");
        let counts = verdict.counts;
        assert!(
            counts.calls > 500 && counts.events > 200 && counts.watches > 3,
            "{what}, {mix:?}: {verdict}"
        );
        println!("{what}, {mix:?}: {verdict}");
    }
}

/// As after a restart of the server behind its last write: the watch on everything resumes in the future, where no event
/// and no word of progress comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_had_heard_everything_before_it_resumed_is_complete() {
    let stop = CancellationToken::new();
    let url = serve(Config::memory(), stop.clone()).await;
    let quiet = Plan { clients: 0, watchers: 0, ..Plan::new(url, 5) };
    let recording = record(quiet, 1, 0).await;
    stop.cancel();
    assert!(recording.complete, "{:?}", recording.history);
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
    let url = serve(Config::durable(dir.path()), stop.clone()).await;
    must_pass("kstore", &url, 9).await;
    stop.cancel();
}

/// Some traffic with somebody in between who does wrong.
async fn spoiled(wrong: Wrong) -> Verdict {
    let stop = CancellationToken::new();
    let url = serve(Config::memory(), stop.clone()).await;
    let between = Middleman::start(&url, wrong, stop.clone()).await;
    let plan = Plan { timeout: Duration::from_secs(5), rate: 0, ..Plan::new(between, 11) };
    let recording = record(plan, 1, 1_000).await;
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
    for (wrong, guarantees) in cases {
        let verdict = spoiled(wrong).await;
        if guarantees.is_empty() {
            assert!(verdict.is_good(), "{wrong:?}: {verdict}");
        } else {
            println!("{wrong:?}: {verdict}");
            let named = guarantees.iter().any(|guarantee| verdict.breaks(*guarantee));
            assert!(named, "{wrong:?} must break one of {guarantees:?}: {verdict}");
        }
    }
}
