//! A real etcd for comparison tests.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The member's peer URL, which no other member uses.
pub(crate) const PEER: &str = "http://127.0.0.1:1";

/// The path of an etcd program. If it is missing, the test that needs it prints so and passes, unless it must not.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("KSTORE_REQUIRE_ETCD").is_none(), "{name} is required but not in PATH");
        eprintln!("skipped: {name} is not in PATH");
    }
    found
}

/// The output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?}: {}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// A running etcd, which is killed when the test ends.
pub(crate) struct Etcd {
    process: Child,
    endpoint: String,
    ctl: PathBuf,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    pub(crate) fn start(etcd: &Path, ctl: &Path, data: &Path) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let endpoint = format!("http://{}", free());
        let log = fs::File::create(data.with_extension("log")).unwrap();
        let process = Command::new(etcd)
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &format!("http://{}", free())])
            .args(["--initial-advertise-peer-urls", PEER])
            .args(["--initial-cluster", &format!("default={PEER}")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let etcd = Self { process, endpoint, ctl: ctl.to_owned() };
        // Not the health check: it fails while a restored alarm is raised.
        etcd.ctl(&["get", "nothing", "--command-timeout", "20s"]);
        etcd
    }

    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        output(Command::new(&self.ctl).args(["--endpoints", &self.endpoint]).args(arguments))
    }

    /// etcd's hash of its whole history.
    pub(crate) fn hash(&self) -> u32 {
        let line = self.ctl(&["endpoint", "hashkv"]);
        line.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }
}
