//! The history checker over real connections: a real etcd and kstore's etcd API pass; a server with one
//! injected fault of any kind is detected.

use kstore_checker::grpc::{Mix, Plan, Recording, Workload};
use kstore_checker::{Guarantee, Verdict, judge};
use kstore_etcd::Options;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use kstore_tests::{Etcd, Fault, FaultyProxy};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves a store and returns its URL.
async fn serve(config: Config, stop: CancellationToken) -> String {
    let store = Store::open(config, Nondet::real()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(kstore_etcd::serve(store, listener, Options::plain(url.clone()), stop));
    url
}

/// Records traffic for some time, and at least some calls on a slow machine.
async fn record(plan: Plan, seconds: u64, calls: u64) -> Recording {
    let workload = Workload::start(plan).await.unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    workload.reached(calls).await;
    workload.finish().await.unwrap()
}

/// Runs both traffic mixes against one server and asserts every guarantee.
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

/// The watch of all keys resumes at a future revision, where it gets neither events nor progress. The same happens
/// after a server restart that follows the last write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_resumed_beyond_the_last_event_is_complete() {
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
async fn kstores_etcd_api_passes() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let url = serve(Config::durable(dir.path()), stop.clone()).await;
    must_pass("kstore", &url, 9).await;
    stop.cancel();
}

/// Traffic through a proxy with an injected fault.
async fn check_with_fault(fault: Fault) -> Verdict {
    let stop = CancellationToken::new();
    let url = serve(Config::memory(), stop.clone()).await;
    let between = FaultyProxy::start(&url, fault, stop.clone()).await;
    let plan = Plan { timeout: Duration::from_secs(5), rate: 0, ..Plan::new(between, 11) };
    let recording = record(plan, 1, 1_000).await;
    stop.cancel();
    judge(&recording.history)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_injected_fault_is_detected() {
    let cases: [(Fault, &[Guarantee]); 7] = [
        (Fault::Nothing, &[]),
        // The fault hits the first event of a watch, the last before a progress notification, and others.
        (Fault::Drop, &[Guarantee::Reliable, Guarantee::Resumable, Guarantee::Bookmarkable]),
        (Fault::Repeat, &[Guarantee::Unique]),
        (Fault::Reorder, &[Guarantee::Ordered]),
        (Fault::Stale, &[Guarantee::Linearizable]),
        (Fault::PrevKv, &[Guarantee::PrevKv]),
        (Fault::Forget, &[Guarantee::Linearizable, Guarantee::OneHistory]),
    ];
    for (fault, guarantees) in cases {
        let verdict = check_with_fault(fault).await;
        if guarantees.is_empty() {
            assert!(verdict.is_good(), "{fault:?}: {verdict}");
        } else {
            println!("{fault:?}: {verdict}");
            let named = guarantees.iter().any(|guarantee| verdict.breaks(*guarantee));
            assert!(named, "{fault:?} must break one of {guarantees:?}: {verdict}");
        }
    }
}
