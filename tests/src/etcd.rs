//! [`Etcd`]: a real etcd as a child process, if one is installed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A port that was free a moment ago, for a program that must reuse it after a restart.
///
/// # Panics
///
/// No port is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Name and URLs of a member of an etcd cluster.
struct MemberAddress {
    name: &'static str,
    url: String,
    peer: String,
}

impl MemberAddress {
    fn free(name: &'static str, scheme: &str) -> Self {
        let url = format!("{scheme}://127.0.0.1:{}", free_port());
        Self { name, url, peer: format!("http://127.0.0.1:{}", free_port()) }
    }

    fn in_cluster(&self) -> String {
        format!("{}={}", self.name, self.peer)
    }
}

/// A member of an etcd cluster, usually its only one. Killed on drop.
pub struct Etcd {
    child: Child,
    args: Vec<String>,
    url: String,
}

impl Etcd {
    /// Starts an etcd with its data in `dir`; `None` if none is installed.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &[])
    }

    /// Starts an etcd that forgets a login after one idle second.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start_forgetful(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &["--auth-token-ttl", "1"])
    }

    /// Starts an etcd that does not sync, which is faster and not durable.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start_without_syncs(dir: &Path) -> Option<Self> {
        Self::start_with(dir, "http", &["--unsafe-no-fsync"])
    }

    /// Starts an etcd that accepts only TLS clients with a certificate. `files` contains `ca.pem`,
    /// `server.pem` and `server.key`.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start_tls(dir: &Path, files: &Path) -> Option<Self> {
        let file = |name: &str| files.join(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let args = ["--trusted-ca-file", &ca, "--cert-file", &cert, "--key-file", &key, "--client-cert-auth"];
        Self::start_with(dir, "https", &args)
    }

    fn start_with(dir: &Path, scheme: &str, more: &[&str]) -> Option<Self> {
        let member = MemberAddress::free("default", scheme);
        let cluster = member.in_cluster();
        Self::start_at(dir, &member, &cluster, more)
    }

    /// Starts the three members of one cluster.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start_members(dir: &Path) -> Option<[Self; 3]> {
        let places = ["a", "b", "c"].map(|name| MemberAddress::free(name, "http"));
        let cluster = places.each_ref().map(MemberAddress::in_cluster).join(",");
        let [a, b, c] = places.map(|place| Self::start_at(&dir.join(place.name), &place, &cluster, &[]));
        Some([a?, b?, c?])
    }

    fn start_at(dir: &Path, place: &MemberAddress, cluster: &str, more: &[&str]) -> Option<Self> {
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

    /// The client URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub fn kill(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the member again at its address.
    ///
    /// # Panics
    ///
    /// It does not start although it did before.
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
