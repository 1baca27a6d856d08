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

/// Where a member of a cluster is.
struct Place {
    name: &'static str,
    url: String,
    peer: String,
}

impl Place {
    fn free(name: &'static str, scheme: &str) -> Self {
        let url = format!("{scheme}://127.0.0.1:{}", free_port());
        Self { name, url, peer: format!("http://127.0.0.1:{}", free_port()) }
    }

    fn in_cluster(&self) -> String {
        format!("{}={}", self.name, self.peer)
    }
}

/// A member of an etcd, most often the only one. Killed when dropped.
pub struct Etcd {
    child: Child,
    args: Vec<String>,
    url: String,
}

impl Etcd {
    /// Starts one with its data in `dir`; none if none is installed.
    ///
    /// # Panics
    /// When none is installed and the environment has `KSTORE_REQUIRE_ETCD`.
    pub fn start(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &[])
    }

    /// One that forgets who has logged in after a second in which he asked nothing.
    ///
    /// # Panics
    /// As [`Etcd::start`].
    pub fn start_forgetful(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &["--auth-token-ttl", "1"])
    }

    /// One that is fast, and would lose what it was told if the machine went down.
    ///
    /// # Panics
    /// As [`Etcd::start`].
    pub fn start_without_syncs(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &["--unsafe-no-fsync"])
    }

    /// One that speaks TLS, and only to clients with a certificate: `ca.pem`, `server.pem` and `server.key` are in `files`.
    ///
    /// # Panics
    /// As [`Etcd::start`].
    pub fn start_tls(dir: &Path, files: &Path) -> Option<Self> {
        let file = |name: &str| files.join(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let args = ["--trusted-ca-file", &ca, "--cert-file", &cert, "--key-file", &key, "--client-cert-auth"];
        Self::start_with(dir, "https", &args)
    }

    fn start_with(dir: &Path, scheme: &str, more: &[&str]) -> Option<Self> {
        let member = Place::free("default", scheme);
        let cluster = member.in_cluster();
        Self::start_at(dir, &member, &cluster, more)
    }

    /// The members of one cluster.
    ///
    /// # Panics
    /// As [`Etcd::start`].
    pub fn start_members(dir: &Path) -> Option<[Self; 3]> {
        let places = ["a", "b", "c"].map(|name| Place::free(name, "http"));
        let cluster = places.each_ref().map(Place::in_cluster).join(",");
        let [a, b, c] = places.map(|place| Self::start_at(&dir.join(place.name), &place, &cluster, &[]));
        Some([a?, b?, c?])
    }

    fn start_at(dir: &Path, place: &Place, cluster: &str, more: &[&str]) -> Option<Self> {
        let (url, peer, dir) = (&place.url, &place.peer, dir.display().to_string());
        let args = ["--name", place.name, "--data-dir", &dir];
        let clients = ["--listen-client-urls", url, "--advertise-client-urls", url];
        let peers = ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer];
        let rest = ["--initial-cluster", cluster, "--log-level", "error"];
        let args = args.iter().chain(&clients).chain(&peers).chain(&rest).chain(more);
        let args: Vec<String> = args.map(|arg| (*arg).to_owned()).collect();
        match spawn(&args) {
            Ok(child) => Some(Self { child, args, url: url.clone() }),
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

    /// SIGKILL. On return it is gone.
    pub fn kill(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again where it was.
    ///
    /// # Panics
    /// When it does not start, which it has done before.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.args).expect("it has been started before");
    }
}

fn spawn(args: &[String]) -> std::io::Result<Child> {
    Command::new("etcd").args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
