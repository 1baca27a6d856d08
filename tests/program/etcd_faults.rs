//! Fault injection on the program's etcd API: it serves many clients while it is killed, paused and restarted
//! at random. Then the checker judges the whole history: no acknowledged write is lost, reads are consistent,
//! and watches resume without gaps. `KSTORE_FAULT_SECONDS` sets the duration.

use crate::SERVER;
use kstore_checker::grpc::{Plan, Workload};
use kstore_checker::{Verdict, judge};
use kstore_nondet::Rng;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Launch, Server, free_port};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Default duration per engine.
const SECONDS: u64 = 10;

/// Shortest lease that can be granted; pauses exceed it.
const LEASE_SECONDS: i64 = 2;

/// Kills and pauses at least, however slow the machine is.
const FAULTS: usize = 3;

/// Calls of all clients at least.
const CALLS: u64 = 250;

/// Counts of injected faults.
#[derive(Debug, Default)]
struct Faults {
    kills: usize,
    kills_while_starting: usize,
    pauses: usize,
    restarts: usize,
}

fn seconds() -> u64 {
    let given = std::env::var("KSTORE_FAULT_SECONDS").ok();
    given.map_or(SECONDS, |given| given.parse().expect("KSTORE_FAULT_SECONDS is a number of seconds"))
}

async fn milliseconds(rng: &Rng, range: std::ops::Range<u64>) {
    sleep(Duration::from_millis(range.start + rng.below(range.end - range.start))).await;
}

/// Injects one fault into a running server. Returns a running server.
async fn fault(launch: &Launch, mut server: Server, rng: &Rng, faults: &mut Faults) -> Server {
    match rng.below(10) {
        0..5 => {
            server.kill();
            faults.kills += 1;
            while rng.below(3) == 0 {
                launch.start_and_kill(milliseconds(rng, 0..60)).await;
                faults.kills_while_starting += 1;
            }
            server = launch.start_silent();
        }
        5..9 => {
            // Short, or longer than the shortest lease; sometimes the paused server is killed.
            let long = rng.below(3) == 0;
            server.pause();
            milliseconds(rng, if long { 2_000..2_600 } else { 5..400 }).await;
            faults.pauses += 1;
            if rng.below(5) == 0 {
                server.kill();
                faults.kills += 1;
                server = launch.start_silent();
            } else {
                server.resume();
            }
        }
        _ => {
            server.terminate();
            faults.restarts += 1;
            server = launch.start_silent();
        }
    }
    server
}

async fn run(engine: &str, dir: &Path, seed: u64) -> (Faults, bool, Verdict) {
    let (port, data) = (free_port(), dir.join("data").display().to_string());
    let address = format!("127.0.0.1:{port}");
    let launch = Launch::new(SERVER, dir).args(&["--components", "store", "--etcd-listen", &address]);
    let launch = launch.args(&["--data-dir", &data, "--engine", engine]);
    let mut server = launch.start_silent();
    let plan = Plan {
        timeout: Duration::from_millis(700),
        lease_ttl: LEASE_SECONDS,
        ..Plan::new(format!("http://{address}"), seed)
    };
    let workload = Workload::start(plan).await.unwrap();
    let (rng, mut faults) = (Rng::seeded(seed), Faults::default());
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end || faults.kills + faults.pauses < FAULTS {
        milliseconds(&rng, 200..1_500).await;
        server = fault(&launch, server, &rng, &mut faults).await;
    }
    // On a busy machine the clients need longer.
    timeout(PATIENCE, workload.reached(CALLS)).await.expect("the server answers again");
    let recording = workload.finish().await.unwrap();
    let verdict = judge(&recording.history);
    if !verdict.is_good() || !recording.complete {
        keep(&recording.history, dir, engine);
    }
    drop(server);
    (faults, recording.complete, verdict)
}

/// Keeps a failing history in a file for analysis.
fn keep(history: &kstore_checker::History, dir: &Path, engine: &str) {
    let file = dir.join(format!("{engine}.jsonl"));
    let mut to = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    history.write(&mut to).unwrap();
    eprintln!("the history is in {}", file.display());
}

async fn must_hold(engine: &str, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (faults, complete, verdict) = run(engine, dir.path(), seed).await;
    println!("{engine}: {faults:?}; {verdict}");
    if !verdict.is_good() || !complete {
        let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap_or_default();
        let kept = dir.keep();
        panic!("{engine}: complete: {complete}, {faults:?}; see {}; {verdict}\n{log}", kept.display());
    }
    assert!(verdict.counts.calls > 200, "{faults:?}; {verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_break_no_guarantee_with_segments() {
    must_hold("segments", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_break_no_guarantee_with_sled() {
    must_hold("sled", 2).await;
}
