//! [`Etcd`]: a real etcd as a child process, where one is installed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A port that was free a moment ago, for a program that must find it again after it was killed.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// An etcd of one member. Killed when dropped.
pub struct Etcd {
    child: Child,
    url: String,
}

impl Etcd {
    /// Starts one with its data in `dir`; none if none is installed.
    ///
    /// # Panics
    /// When none is installed and the environment has `KSTORE_REQUIRE_ETCD`.
    pub fn start(dir: &Path) -> Option<Self> {
        let (url, peer) =
            (format!("http://127.0.0.1:{}", free_port()), format!("http://127.0.0.1:{}", free_port()));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(dir).args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"]);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => Some(Self { child, url }),
            Err(error) => {
                let required = std::env::var_os("KSTORE_REQUIRE_ETCD").is_some();
                assert!(!required, "KSTORE_REQUIRE_ETCD is set, and etcd does not start: {error}");
                None
            }
        }
    }

    /// Where clients reach it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
