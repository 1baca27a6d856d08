//! kstore's scheduler in lockstep with a real kube-scheduler: random scripts of operations, and every decision compared.
//!
//! kube-scheduler runs against an API server of this process. A [`kstore_scheduler::shadow::Shadow`] reads the same objects in the same
//! order, and says what it would have done. The runs are recorded; the kept recordings are replayed by the tests of the scheduler.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// The cluster with both schedulers.
mod beside;
/// Random volumes and devices.
mod devices;
/// kube-scheduler and its log.
mod log;
/// Random nodes and pods.
mod pods;
/// Random operations.
mod script;
/// The API server.
mod server;

use beside::Beside;
use flate2::Compression;
use flate2::write::GzEncoder;
use kstore_nondet::Rng;
use script::Script;
use server::Server;
use std::io::Write as _;
use std::path::PathBuf;

/// The path of kube-scheduler 1.36.
const PROGRAM: &str = "KUBE_SCHEDULER";
/// The path of kstore-server.
const SERVER: &str = "KSTORE_SERVER";
/// The number of operations; 300 without it.
const STEPS: &str = "KSTORE_LOCKSTEP_STEPS";
/// The seed of the first script; 1 without it.
const SEED: &str = "KSTORE_LOCKSTEP_SEED";
/// A folder for recordings.
const RECORDINGS: &str = "KSTORE_LOCKSTEP_RECORDINGS";
/// Operations of one script.
const STEPS_OF_SCRIPT: usize = 100;
/// Scripts of one recording: then kube-scheduler starts anew.
const SCRIPTS_OF_RECORDING: usize = 20;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_kube_scheduler_decides_alike() {
    let (Ok(program), Ok(server)) = (std::env::var(PROGRAM), std::env::var(SERVER)) else {
        println!("skipped: {PROGRAM} and {SERVER} do not name a kube-scheduler and a kstore-server");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&server, dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let differences = runtime.block_on(run(&server, &program, (number(STEPS, 300), number(SEED, 1))));
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n\n"));
}

/// Runs scripts, and returns the first difference of each recording.
async fn run(server: &Server, program: &str, (steps, seed): (usize, usize)) -> Vec<String> {
    let folder = std::env::var_os(RECORDINGS).map(PathBuf::from);
    let (mut done, mut script_seed, mut differences) = (0, seed, Vec::new());
    while done < steps {
        let first = script_seed;
        let mut beside = Beside::start(server, program).await;
        let mut failure = None;
        while done < steps && script_seed < first + SCRIPTS_OF_RECORDING && failure.is_none() {
            let mut script = Script::new(Rng::seeded(script_seed as u64), script_seed);
            let result = beside.run(&mut script, STEPS_OF_SCRIPT.min(steps - done)).await;
            done += result.steps;
            println!("script {script_seed}: {result:?}; {done} steps in all");
            failure = result.difference.map(|difference| format!("script {script_seed}: {difference}"));
            script_seed += 1;
        }
        if let Some(folder) = &folder {
            let name = if failure.is_some() { "differs" } else { "equal" };
            save(&folder.join(format!("{name}-{first}.jsonl.gz")), beside.lines());
            beside.keep_log(&folder.join(format!("{name}-{first}.log")));
        }
        beside.end().await;
        differences.extend(failure);
    }
    differences
}

/// Writes a recording, with short uids.
fn save(path: &std::path::Path, lines: &str) {
    let mut encoder = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::best());
    encoder.write_all(short_uids(lines).as_bytes()).unwrap();
    encoder.finish().unwrap();
}

/// The text with each uid replaced by a short one: uids are random, and would be most of a compressed recording.
fn short_uids(lines: &str) -> String {
    let mut known = std::collections::BTreeMap::new();
    let mut text = String::with_capacity(lines.len());
    let mut rest = lines;
    while let Some(at) = rest.find(r#""uid":""#) {
        let (before, after) = rest.split_at(at + 7);
        let end = after.find('"').unwrap();
        let next = known.len();
        let short = known.entry(&after[..end]).or_insert_with(|| format!("u{next}"));
        text += before;
        text += short;
        rest = &after[end..];
    }
    text + rest
}
