//! Tests of the `kstore-server` binary: start, stop, `run`, `store`, and errors of its command line.
//! Behaviour of the API is tested in `tests`.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use kstore_nondet::Nondet;
use kstore_store::{Alarm, Config, Store};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// Ports of the programs that are told theirs.
#[path = "../../tests/src/ports.rs"]
mod ports;

/// The first steps of a new user: stop, merge, certificates, mistakes, and what a run leaves behind.
#[path = "binary/first_use.rs"]
mod first_use;

/// A running server that is killed on drop.
struct Server {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    kubeconfig: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kstore-server"));
    command.env_remove("KUBECONFIG").env_remove("RUST_LOG");
    command
}

/// Starts a server and waits for its ready message.
fn start(arguments: &[&str]) -> Server {
    let mut command = binary();
    command.args(arguments);
    start_command(command)
}

fn start_command(mut command: Command) -> Server {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    let first = next();
    assert!(first.starts_with("kstore is ready"), "{first}");
    let address = next().strip_prefix("address").unwrap().trim().strip_prefix("https://").unwrap().to_owned();
    let kubeconfig = next().strip_prefix("kubeconfig").unwrap().trim().into();
    assert!(next().contains("kubectl"));
    Server { process, stdout, address, kubeconfig }
}

fn output(arguments: &[&str]) -> Output {
    binary().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn terminate(process: &Child) {
    let id = rustix::process::Pid::from_child(process);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn sigterm_stops_a_server_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    // No other program takes it between the two starts.
    let address = format!("127.0.0.1:{}", ports::reserve());
    let flags = ["--listen", &address, "--data-dir", &data, "--components", "apiserver"];
    let mut server = start(&flags);
    assert!(server.kubeconfig.ends_with("data/admin.kubeconfig"));
    let first = std::fs::read_to_string(&server.kubeconfig).unwrap();
    terminate(&server.process);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    server.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "kstore has stopped\n", "only the ready message was printed before");

    let again = start(&flags);
    assert_eq!(std::fs::read_to_string(&again.kubeconfig).unwrap(), first, "certificates are kept");
}

#[test]
fn a_data_directory_and_a_port_are_used_by_one_server_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let server = start(&["--listen", "127.0.0.1:0", "--data-dir", data, "--components", "apiserver"]);
    let second = output(&["--listen", "127.0.0.1:0", "--data-dir", data]);
    assert_eq!(second.status.code(), Some(1));
    let expected = format!("is in use by process {}", server.process.id());
    assert!(text(&second.stderr).contains(&expected), "{}", text(&second.stderr));
    let third = output(&["--in-memory", "--listen", &server.address]);
    assert_eq!(third.status.code(), Some(1));
    assert!(text(&third.stderr).contains("is in use by another process; choose another with --listen"));
}

#[test]
fn a_server_in_memory_has_a_kubeconfig_but_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = binary();
    command.current_dir(dir.path()).args([
        "--in-memory",
        "--listen",
        "127.0.0.1:0",
        "--components",
        "apiserver",
    ]);
    let server = start_command(command);
    assert!(std::fs::read_to_string(&server.kubeconfig).unwrap().contains("client-key-data"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_store_runs_without_an_apiserver_and_reopens_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for _ in 0..2 {
        let mut command = binary();
        command.args(["--components", "store", "--etcd-listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut block = String::new();
        while !block.contains("try ") {
            assert!(stdout.read_line(&mut block).unwrap() > 0, "{block}");
        }
        assert!(block.starts_with("kstore is ready\n  etcd        http://127.0.0.1:"), "{block}");
        assert!(block.contains("etcdctl --endpoints http://127.0.0.1:"), "{block}");
        terminate(&process);
        assert_eq!(process.wait().unwrap().code(), Some(0));
    }
    assert!(!data.join("pki").exists(), "no certificates were made");
}

#[test]
fn run_returns_the_commands_exit_code_and_provides_a_kubeconfig() {
    let script = "test -r \"$KUBECONFIG\" && grep -q client-key-data \"$KUBECONFIG\" && exit 7";
    let run = output(&["run", "--components", "apiserver", "--", "sh", "-c", script]);
    assert_eq!(run.status.code(), Some(7), "{}", text(&run.stderr));
    let killed = output(&["run", "--components", "apiserver", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    let missing = output(&["run", "--components", "apiserver", "--", "/does/not/exist"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("cannot run /does/not/exist"));
}

/// Starts `run` with a command that prints its process ID and its kubeconfig and then waits forever.
fn run_waiting() -> (Child, String, PathBuf) {
    let script = "echo $$; echo \"$KUBECONFIG\"; exec sleep 1000";
    run_script(script)
}

/// Starts `run` with a script that prints two lines first: the ID of a process, and its kubeconfig.
fn run_script(script: &str) -> (Child, String, PathBuf) {
    let mut run = binary()
        .args(["run", "--components", "apiserver", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (id, kubeconfig) = (lines.next().unwrap(), lines.next().unwrap());
    (run, id, kubeconfig.into())
}

fn is_alive(id: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // A killed process that its new parent has not reaped yet is no longer alive.
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
#[cfg(target_os = "linux")]
fn run_leaves_nothing_behind_even_when_it_is_killed() {
    let (mut run, command, kubeconfig) = run_waiting();
    assert!(kubeconfig.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    // The kernel kills the command when the last thread exits, which takes a moment.
    let gone = (0..20_000).any(|_| {
        std::thread::yield_now();
        Command::new("true").status().unwrap();
        !is_alive(&command)
    });
    assert!(gone, "the command still runs");
    assert!(!kubeconfig.exists());
}

#[test]
fn run_forwards_sigterm_to_the_command() {
    let (mut run, _, _) = run_waiting();
    terminate(&run);
    assert_eq!(run.wait().unwrap().code(), Some(143));
}

#[test]
fn contradictory_command_lines_are_refused_with_a_hint() {
    let refused = |arguments: &[&str]| {
        let output = output(arguments);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(refused(&["--components", "scheduler"]).contains("needs --kubeconfig"));
    assert!(refused(&["--components", "scheduler", "--kubeconfig", "/none"]).contains("/none"));
    assert!(refused(&["--components", "everything"]).contains("possible values"));
    assert!(refused(&["--history", "soon"]).contains("10000revs"));
    assert!(refused(&["--components", "store"]).contains("needs --etcd-listen"));
    let open = ["--components", "store", "--in-memory", "--etcd-listen", "0.0.0.0:0"];
    assert!(refused(&open).contains("--etcd-allow-anyone"));
    assert!(refused(&["explain", "deployment"]).contains("KIND/NAME"));
    assert!(refused(&["explain", "deployment/"]).contains("say which deployment: KIND/NAME"));
    assert!(refused(&["explain", "gadget/x", "--kubeconfig", "/none"]).contains("/none"));
    assert!(refused(&["run", "--components", "scheduler", "--", "true"]).contains("apiserver"));
    for help in [&["--help"][..], &["run", "--help"], &["explain", "--help"], &["store", "--help"]] {
        assert!(text(&output(help).stdout).contains("Examples:"), "{help:?}");
    }
}

#[test]
fn a_store_is_saved_verified_and_restored_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, file, restored) = (path("data"), path("backup.db"), path("restored"));
    let store = |arguments: &[&str]| {
        let output = output(&[&["store"], arguments].concat());
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, stderr) = store(&["status", "--data-dir", &data]);
    assert_eq!(code, 1);
    assert!(stderr.contains("contains no store"), "{stderr}");

    let server = start(&["--listen", "127.0.0.1:0", "--data-dir", &data, "--components", "apiserver"]);
    let (code, _, stderr) = store(&["snapshot", "save", &file, "--data-dir", &data]);
    assert_eq!(code, 1);
    assert!(stderr.contains("in use by process") && stderr.contains("etcdctl"), "{stderr}");
    drop(server);

    let json = |arguments: &[&str]| -> serde_json::Value {
        let (code, stdout, stderr) = store(&[arguments, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let original = json(&["verify", "--data-dir", &data]);
    assert!(original["keys"].as_u64().unwrap() > 10 && original["problems"] == serde_json::json!([]));
    let saved = json(&["snapshot", "save", &file, "--data-dir", &data]);
    assert_eq!(saved["revision"], original["revision"]);
    let status = json(&["snapshot", "status", &file]);
    assert_eq!((&status["revision"], &status["checksum"]), (&original["revision"], &"right".into()));
    json(&["snapshot", "restore", &file, "--data-dir", &restored]);
    let copy = json(&["status", "--data-dir", &restored]);
    for same in ["revision", "compacted", "keys", "records", "recordBytes", "leases", "engine"] {
        assert_eq!(copy[same], original[same], "{same}");
    }
    assert_ne!(copy["identity"], original["identity"]);
    let (code, _, stderr) = store(&["snapshot", "restore", &file, "--data-dir", &restored]);
    assert!(code == 1 && stderr.contains("contains a store already"), "{stderr}");
    let bump = ["--bump-revision", "1000", "--mark-compacted", "--data-dir", &path("bumped")];
    let bumped = json(&[&["snapshot", "restore", &file], &bump[..]].concat());
    let expected = original["revision"].as_u64().unwrap() + 1000;
    assert_eq!((bumped["revision"].as_u64(), bumped["compacted"].as_u64()), (Some(expected), Some(expected)));
    let again = start(&["--listen", "127.0.0.1:0", "--data-dir", &restored, "--components", "apiserver"]);
    drop(again);

    let wal = std::fs::read_dir(path("data/wal")).unwrap().map(|entry| entry.unwrap().path());
    wal.for_each(|path| std::fs::write(path, "damaged").unwrap());
    let (code, stdout, _) = store(&["verify", "--data-dir", &data]);
    assert_eq!(code, 3);
    assert!(stdout.contains("its header is damaged"), "{stdout}");
    let (code, stdout, _) = store(&["salvage", &path("salvaged.db"), "--data-dir", &data]);
    assert!(code == 3 && stdout.contains("lostRevisions"), "{stdout}");
    let (code, _, stderr) = store(&["snapshot", "save", &path("no.db"), "--data-dir", &data]);
    assert!(code == 1 && stderr.contains("salvage"), "{stderr}");
    assert!(!store(&["snapshot", "restore", &file, "--bump-revision", "1"]).2.is_empty());
}

/// Raises an alarm as a store does when it runs out of space.
fn raise_an_alarm(data: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(Config::durable(data), Nondet::real()).await.unwrap();
        store.put("key", "value").await.unwrap();
        store.alarm_raise(Alarm::NoSpace).await.unwrap();
        store.close().await;
    });
}

#[test]
fn alarms_are_disarmed_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let store = |arguments: &[&str]| {
        let output = output(&[&["store"], arguments, &["--output", "json", "--data-dir", &data]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_str::<serde_json::Value>(&text(&output.stdout)).unwrap()
    };
    raise_an_alarm(&data);
    let before = store(&["status"]);
    assert_eq!(before["alarms"], serde_json::json!(["NOSPACE"]));
    assert_eq!(store(&["alarm", "disarm"])["disarmed"], serde_json::json!(["NOSPACE"]));
    let after = store(&["status"]);
    assert_eq!((&after["alarms"], &after["revision"]), (&serde_json::json!([]), &before["revision"]));
    assert_eq!(store(&["alarm", "disarm"])["disarmed"], serde_json::json!([]));
}

/// Regression: a server on a full disk did not start, so nobody could delete anything.
#[test]
fn an_existing_cluster_starts_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let flags = ["--listen", "127.0.0.1:0", "--data-dir", &data, "--components", "apiserver"];
    drop(start(&flags));
    raise_an_alarm(&data);
    // The new port is one of the changes that find no space.
    drop(start(&flags));
    let new = dir.path().join("new").to_str().unwrap().to_owned();
    raise_an_alarm(&new);
    let refused = text(&output(&["--listen", "127.0.0.1:0", "--data-dir", &new]).stderr);
    assert!(refused.contains("Insufficient storage"), "{refused}");
}

#[test]
fn a_silent_command_leaves_a_silent_run() {
    for _ in 0..3 {
        let done = output(&["run", "--", "true"]);
        let said = text(&[done.stdout, done.stderr].concat());
        assert!(done.status.success() && said.is_empty(), "{said}");
    }
}

#[test]
fn wrong_command_lines_end_with_2_and_errors_say_nothing_twice() {
    for arguments in [
        &["--components", "controllers"][..],
        &["--controllers", "x"],
        &["run", "--components", "scheduler", "--", "true"],
    ] {
        let refused = output(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", text(&refused.stderr));
    }
    let refused = text(&output(&["run", "--manifest", "nosuch", "--", "true"]).stderr);
    assert_eq!(refused.matches("os error 2").count(), 1, "{refused}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.yaml");
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replica: 2, selector: \
        {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c, image: x}]}}}\n";
    std::fs::write(&file, deployment).unwrap();
    let refused = output(&["run", "--manifest", file.to_str().unwrap(), "--", "true"]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("unknown field \"spec.replica\""), "{said}");
}

/// A running server of the etcd API, kstore or a real etcd, that is killed on drop.
struct Member {
    process: Child,
    url: String,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Peer URL of a single real etcd; no peer exists.
const PEER: &str = "http://127.0.0.1:1";

impl Member {
    /// Starts the store alone.
    fn kstore(data: &str) -> Self {
        let mut command = binary();
        command.args(["--components", "store", "--etcd-listen", "127.0.0.1:0", "--data-dir", data]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let url = lines.find_map(|line| Some(line.trim().strip_prefix("etcd")?.trim().to_owned()));
        // The last line of the message is a command to try.
        lines.next().unwrap();
        Self { process, url: url.unwrap() }
    }

    fn etcd(data: &str) -> Self {
        let [url, peers] = [(); 2].map(|()| format!("http://127.0.0.1:{}", ports::reserve()));
        let mut command = Command::new("etcd");
        command.args(["--data-dir", data, "--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", PEER]);
        command.args(["--initial-cluster", &format!("default={PEER}"), "--log-level", "fatal"]);
        // A busy disk delays no call; what was written survives the process.
        command.arg("--unsafe-no-fsync");
        let member = Self { process: command.stderr(Stdio::null()).spawn().unwrap(), url };
        member.ctl(&["endpoint", "health"]);
        member
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        // etcdctl's own limits are two and five seconds.
        let patient = ["--endpoints", &self.url, "--dial-timeout", "180s", "--command-timeout", "180s"];
        tool("etcdctl", &[&patient, arguments].concat())
    }

    /// The hash of the server's whole history.
    fn hash(&self) -> String {
        self.ctl(&["endpoint", "hashkv"]).trim().rsplit(' ').next().unwrap().to_owned()
    }
}

/// Runs one of etcd's programs and returns its output.
fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Whether etcd's programs are installed. If not, the test is skipped, or fails if KSTORE_REQUIRE_ETCD is
/// set.
fn etcd_is_installed() -> bool {
    let missing = ["etcd", "etcdctl", "etcdutl"]
        .into_iter()
        .find(|name| Command::new(name).arg("--help").output().is_err());
    if let Some(name) = missing {
        assert!(std::env::var_os("KSTORE_REQUIRE_ETCD").is_none(), "{name} is required");
        eprintln!("skipped: {name} is not installed");
    }
    missing.is_none()
}

#[test]
fn snapshots_move_data_to_an_etcd_and_back_with_etcds_tools() {
    if !etcd_is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (there, back) = (path("there.db"), path("back.db"));

    let kstore = Member::kstore(&path("kstore"));
    let lease = kstore.ctl(&["lease", "grant", "900"]).split(' ').nth(1).unwrap().to_owned();
    for at in 0..30 {
        let (key, value) = (format!("key/{}", at % 7), "v".repeat(at * 300));
        kstore.ctl(&["put", &key, &value]);
    }
    kstore.ctl(&["put", "leased", "1", "--lease", &lease]);
    kstore.ctl(&["del", "key/3"]);
    kstore.ctl(&["compact", "20"]);
    kstore.ctl(&["snapshot", "save", &there]);
    let theirs = tool("etcdutl", &["snapshot", "status", &there, "-w", "json"]);
    assert!(theirs.contains(r#""revision":33,"#), "{theirs}");
    let cluster = format!("default={PEER}");
    let restore = ["snapshot", "restore", &there, "--data-dir", &path("etcd"), "--initial-cluster", &cluster];
    tool("etcdutl", &[&restore[..], &["--initial-advertise-peer-urls", PEER]].concat());
    let etcd = Member::etcd(&path("etcd"));
    assert_eq!(etcd.hash(), kstore.hash());

    etcd.ctl(&["put", "key/5", "from etcd", "--lease", &lease]);
    etcd.ctl(&["snapshot", "save", &back]);
    let restored = output(&["store", "snapshot", "restore", &back, "--data-dir", &path("again")]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let again = Member::kstore(&path("again"));
    assert_eq!(again.hash(), etcd.hash());
    let all = ["get", "", "--prefix"];
    assert_eq!(again.ctl(&all), etcd.ctl(&all));
    assert!(again.ctl(&["lease", "timetolive", &lease, "--keys"]).contains("[key/5 leased]"));
}
