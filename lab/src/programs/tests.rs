//! Tests of programs as processes, without a cluster.

use super::*;
use crate::client::process::sample;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// How long a test waits for a process in real time.
const LONG: Duration = Duration::from_secs(20);

fn spec(name: &str, script: &str) -> ProgramSpec {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    ProgramSpec { name: name.to_owned(), command, ..ProgramSpec::default() }
}

/// Waits until a condition holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("{what} within {LONG:?}"));
}

/// Whether a process is gone, or waits for its parent's look.
fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// The number in the first line of a program's output.
async fn first_number(programs: &Programs, name: &str) -> u32 {
    let tail = || programs.report(name).unwrap().tail;
    until("a line of output", || tail().contains('\n')).await;
    tail().lines().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_program_has_its_environment_and_its_output_and_end_are_kept() {
    let (programs, folder) = (Programs::default(), tempfile::tempdir().unwrap());
    let output = Some(folder.path().join("out"));
    let script = "echo $A; grep -c secret $KUBECONFIG; pwd; echo wrong >&2; exit 3";
    let env = BTreeMap::from([("A".to_owned(), "one two".to_owned())]);
    let spec = ProgramSpec { env, folder: Some(folder.path().to_owned()), output, ..spec("a", script) };
    let report = programs.run(spec, "token: secret\n").unwrap();
    assert_eq!((report.state, report.incarnation, report.user.as_str()), ("running", 0, "kstore:lab:a"));
    until("the end", || programs.is_running("a") == Some(false)).await;
    let expected = format!("one two\n1\n{}\nwrong\n", folder.path().canonicalize().unwrap().display());
    until("all output", || programs.report("a").unwrap().tail == expected).await;
    assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), expected);
    let report = programs.report("a").unwrap();
    assert_eq!((report.state, report.code, report.signal), ("ended", Some(3), None));
    let files = report.kubeconfig.parent().unwrap().to_owned();
    assert!(files.exists());
    programs.end("a", LONG).await;
    assert!(!files.exists(), "a program that is forgotten leaves no kubeconfig");
    assert_eq!(programs.report("a").unwrap_err().code, 404);
    programs.end("a", LONG).await;
}

#[tokio::test]
async fn a_kill_ends_the_whole_process_group_and_a_start_begins_it_again() {
    let programs = Programs::default();
    let script = "sleep 1000 & echo $!; wait";
    programs.run(spec("a", script), "").unwrap();
    let (leader, child) = (programs.report("a").unwrap().process, first_number(&programs, "a").await);
    assert_eq!(programs.start("a").await.unwrap_err().code, 409, "it runs");
    programs.kill("a").await.unwrap();
    assert!(has_ended(leader) && has_ended(child), "when the kill returns");
    assert_eq!(programs.report("a").unwrap().signal, Some(9));
    assert_eq!(programs.start("a").await.unwrap(), 1);
    let again = programs.report("a").unwrap();
    assert_eq!((again.state, again.incarnation), ("running", 1));
    assert_ne!(again.process, leader);
    programs.start_second("a", "b").await.unwrap();
    assert_eq!(programs.start_second("a", "b").await.unwrap_err().code, 409);
    let second = programs.report("b").unwrap();
    assert!(second.user == again.user && second.output != again.output && second.process != again.process);
    programs.end_all().await;
    assert!(has_ended(again.process) && has_ended(second.process));
    assert_eq!(programs.run(spec("c", "true"), "").unwrap_err().code, 410, "none starts afterwards");
}

#[tokio::test]
async fn a_program_pauses_and_ends_within_its_grace() {
    let programs = Programs::default();
    programs.run(spec("polite", "trap 'exit 7' TERM; echo 1; while :; do sleep 0.01; done"), "").unwrap();
    first_number(&programs, "polite").await;
    let process = programs.report("polite").unwrap().process;
    programs.signal("polite", ProgramSignal::Stop).unwrap();
    // Its processes stop in their own time, the shell perhaps while it waits for a child that has stopped before it began `sleep`.
    until("a paused program is quiet", || sample(process).is_some_and(|sample| sample.runnable == 0)).await;
    let paused = sample(process);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sample(process), paused, "nothing of it runs, where it would begin `sleep` five times");
    programs.stop("polite", LONG).await.unwrap();
    assert_eq!(programs.report("polite").unwrap().code, Some(7), "SIGTERM reaches a paused program");
    programs.run(spec("deaf", "trap '' TERM; echo 1; while :; do sleep 0.01; done"), "").unwrap();
    first_number(&programs, "deaf").await;
    programs.stop("deaf", Duration::from_millis(50)).await.unwrap();
    assert_eq!(programs.report("deaf").unwrap().signal, Some(9));
    assert_eq!(programs.signal("none", ProgramSignal::Kill).unwrap_err().code, 404);
}

#[tokio::test]
async fn names_belong_to_one_program_and_the_bound_holds() {
    let programs = Programs::default();
    let first = programs.run(spec("a", "sleep 1000"), "").unwrap();
    assert_eq!(programs.run(spec("a", "sleep 1000"), "").unwrap().process, first.process, "an equal body");
    assert_eq!(programs.run(spec("a", "sleep 1001"), "").unwrap_err().code, 409);
    let missing = ProgramSpec { command: vec!["/none/such".to_owned()], ..spec("b", "") };
    let refused = programs.run(missing, "").unwrap_err();
    assert!(refused.code == 422 && refused.message.contains("/none/such"), "{}", refused.message);
    for number in 1..limits::PROGRAMS {
        programs.run(spec(&format!("p{number}"), "sleep 1000"), "").unwrap();
    }
    let refused = programs.run(spec("more", "sleep 1000"), "").unwrap_err();
    assert_eq!(refused.code, 429);
    programs.end("p1", Duration::ZERO).await;
    programs.run(spec("more", "sleep 1000"), "").unwrap();
    programs.end_all().await;
}

/// The variable by which a test tells its child to be a server that starts a program.
const SERVER: &str = "KSTORE_LAB_TEST_SERVER";

/// The server that the next test kills. It does nothing when it is run as a test.
#[tokio::test]
async fn server_with_a_program() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    let programs = Programs::default();
    programs.run(spec("a", "sleep 1000 & echo $!; wait"), "").unwrap();
    let child = first_number(&programs, "a").await;
    let report = programs.report("a").unwrap();
    println!("\nstarted {} {child} {}", report.process, report.kubeconfig.display());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn programs_end_with_a_server_that_is_killed() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "programs::tests::server_with_a_program", "--nocapture"])
        .env(SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.strip_prefix("started ").map(str::to_owned)).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let ids: Vec<u32> = words[..2].iter().map(|id| id.parse().unwrap()).collect();
    assert!(ids.iter().all(|id| !has_ended(*id)), "they run before");
    server.kill().unwrap();
    server.wait().unwrap();
    until("the programs' end", || ids.iter().all(|id| has_ended(*id))).await;
    until("the kubeconfig's end", || !std::path::Path::new(words[2]).exists()).await;
}
