//! How searches and replays end: by a signal, by SIGKILL, or with a cluster that stays.

use super::{command, explore, finds_in, said};
use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::Https;
use kstore_tests::wait::until;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The folders of a search.
struct Folders {
    /// Where it runs. Operators have its path as an argument, by which they are found.
    own: TempDir,
    /// For its temporary files.
    temporary: TempDir,
}

impl Folders {
    fn new() -> Self {
        Self { own: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap() }
    }

    /// Begins a search, or a replay.
    fn begin(&self, flags: &[&str]) -> Child {
        let mut command = command("b9", flags, self.own.path());
        command.arg(self.own.path()).env("TMPDIR", self.temporary.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Command lines of running processes.
    fn processes(&self) -> Vec<String> {
        let mark = self.own.path().display().to_string();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&mark)).collect()
    }

    /// Whether an operator runs.
    fn has_operator(&self) -> bool {
        self.processes().iter().any(|line| !line.starts_with(SERVER))
    }

    async fn until_an_operator_runs(&self) {
        until("an operator runs", async || self.has_operator().then_some(())).await;
    }

    /// Waits until no temporary file is left: the process that removes them outlives the one that made them.
    async fn until_empty(&self) {
        let left = || fs::read_dir(self.temporary.path()).unwrap().count();
        until("no temporary file is left", async || (left() == 0).then_some(())).await;
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn a_signal_ends_a_search_with_its_report_and_leaves_no_process() {
    let folders = Folders::new();
    let search = folders.begin(&["--budget", "1h"]);
    folders.until_an_operator_runs().await;
    interrupt(&search);
    let output = search.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_eq!(folders.processes(), Vec::<String>::new(), "{}", said(&output));
    folders.until_empty().await;
}

#[tokio::test]
async fn a_search_that_is_killed_leaves_no_process_and_no_file() {
    let folders = Folders::new();
    let mut search = folders.begin(&["--budget", "1h"]);
    folders.until_an_operator_runs().await;
    search.kill().unwrap();
    search.wait().unwrap();
    until("no operator runs", async || folders.processes().is_empty().then_some(())).await;
    folders.until_empty().await;
    assert_eq!(fs::read_dir(folders.own.path()).unwrap().count(), 0, "nothing was found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_a_write_and_its_note_is_found_and_a_replay_stays_until_a_signal() {
    let folders = Folders::new();
    let file = finds_in("b9", "crash", "end-state", folders.own.path());
    let mut held = folders.begin(&["--replay", &file, "--hold"]);
    let mut said = Vec::new();
    for line in BufReader::new(held.stdout.as_mut().unwrap()).lines().map(Result::unwrap) {
        let is_last = line.contains("output of operator: ");
        said.push(line);
        if is_last {
            break;
        }
    }
    let after = |text: &str| {
        let line = said.iter().find_map(|line| line.trim_start().strip_prefix(text));
        PathBuf::from(line.unwrap_or_else(|| panic!("no line has {text:?}: {said:#?}")))
    };
    let (kubeconfig, output) = (after("export KUBECONFIG="), after("output of operator: "));
    let https = Https::new(&Kubeconfig::read(&kubeconfig).unwrap());
    let maps = https.call("GET", "/api/v1/namespaces/cloud/configmaps", "").await.json();
    let names = maps["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("external-")).count(), 2, "{maps}");
    assert!(output.exists() && folders.has_operator(), "{said:#?}");
    assert!(held.try_wait().unwrap().is_none());
    interrupt(&held);
    let ended = held.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", super::said(&ended));
    assert_eq!(folders.processes(), Vec::<String>::new());
    folders.until_empty().await;
    let repaired = explore("b9", &["--replay", &file], true, folders.own.path());
    assert_eq!(repaired.status.code(), Some(0), "{}", super::said(&repaired));
    // The file has the scenario, and digests of the files that the scenario names.
    let alone = |file: &str| super::alone("b9", file, folders.own.path());
    let again = alone(&file);
    assert_eq!(again.status.code(), Some(1), "{}", super::said(&again));
    let kept = fs::read_to_string(folders.own.path().join(&file)).unwrap();
    let digest = kept.lines().find_map(|line| line.trim().strip_prefix("thing.yaml: ")).unwrap();
    fs::write(folders.own.path().join("other.yaml"), kept.replace(digest, &"0".repeat(64))).unwrap();
    let changed = alone("other.yaml");
    assert_eq!(changed.status.code(), Some(2), "{}", super::said(&changed));
    assert!(
        super::said(&changed).contains("the file thing.yaml is not what it was"),
        "{}",
        super::said(&changed)
    );
}
