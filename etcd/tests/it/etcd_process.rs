//! A real etcd on free loopback ports, with its data in a temporary directory. Killed when dropped.

use crate::ports;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The path of an etcd program. If it is missing, prints so and returns none, or panics if the tests must not be
/// skipped.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("KSTORE_REQUIRE_ETCD").is_none(), "{name} is not installed");
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// A command of one of etcd's tools. Its environment has only the path, because the tools read flags from variables.
pub(crate) fn tool(name: &str) -> Command {
    let mut command = Command::new(program(name).expect("etcd's tools come together"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A running etcd process.
pub(crate) struct EtcdProcess {
    process: Child,
    url: String,
    _data: TempDir,
}

impl EtcdProcess {
    /// Starts an empty etcd and waits until it serves; none if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_over(None)
    }

    /// Starts an etcd on data that etcdutl restored from a snapshot.
    pub(crate) fn restore(snapshot: &Path) -> Option<Self> {
        Self::start_over(Some(snapshot))
    }

    fn start_over(snapshot: Option<&Path>) -> Option<Self> {
        let program = program("etcd")?;
        // A program that takes its port elsewhere may listen there before etcd does.
        (0..5).find_map(|_| Self::try_start(&program, snapshot)).or_else(|| panic!("etcd does not start"))
    }

    fn try_start(program: &Path, snapshot: Option<&Path>) -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let [client, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", ports::reserve()));
        if let Some(snapshot) = snapshot {
            unpack(snapshot, &data.path().join("data"), &peer);
        }
        let mut process = Command::new(program)
            .env_clear()
            .arg("--data-dir")
            .arg(data.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap"])
            // A busy disk delays no call; what was written survives the process.
            .arg("--unsafe-no-fsync")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            if line.contains("serving client traffic insecurely") {
                // Reads the log to its end, because a full pipe would block etcd.
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return Some(Self { process, url: client, _data: data });
            }
            line.clear();
        }
        let _ = process.wait();
        None
    }

    /// The client URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn unpack(snapshot: &Path, data: &Path, peer: &str) {
    let output = tool("etcdutl")
        .args(["snapshot", "restore"])
        .arg(snapshot)
        .arg("--data-dir")
        .arg(data)
        .args(["--initial-advertise-peer-urls", peer, "--initial-cluster", &format!("default={peer}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
