//! [`Etcd`]: a real etcd as a child process, if one is installed.

use crate::ports;
use crate::wait::{PATIENCE, until};
use kstore_proto::etcd::etcdserverpb::StatusRequest;
use kstore_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use tonic::Code;
use tonic::transport::Endpoint;

/// Number of addresses at which a start is attempted: another program can take a port before etcd does.
const ATTEMPTS: usize = 5;

/// Part of the line that etcd logs when it has bound its client address and answers there.
const SERVING: &str = "serving client traffic";

/// A port that no other test gets, on this machine, until this process ends: for a program that must be told its
/// port, or reuses it after a restart.
///
/// # Panics
///
/// No port is free.
pub fn free_port() -> u16 {
    ports::reserve()
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

/// A member of an etcd cluster, usually its only one. It does not sync, so that a busy disk delays no call and no
/// heartbeat: what it has written survives its own end, though not the machine's. Killed on drop.
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
        let start = || {
            let address = MemberAddress::free("default", scheme);
            let starting = Starting::spawn(dir, &address, &address.in_cluster(), more)?;
            starting.serving()
        };
        installed(started(start))
    }

    /// Starts the three members of one cluster.
    ///
    /// # Panics
    ///
    /// None is installed and `KSTORE_REQUIRE_ETCD` is set.
    pub fn start_members(dir: &Path) -> Option<[Self; 3]> {
        let start = || {
            let addresses = ["a", "b", "c"].map(|name| MemberAddress::free(name, "http"));
            let cluster = addresses.each_ref().map(MemberAddress::in_cluster).join(",");
            let spawn =
                |address: &MemberAddress| Starting::spawn(&dir.join(address.name), address, &cluster, &[]);
            let [a, b, c] = addresses.each_ref().map(spawn);
            // All are spawned before the first is awaited: two must run before one serves.
            let [a, b, c] = [a?, b?, c?];
            Ok([a.serving()?, b.serving()?, c.serving()?])
        };
        installed(started(start))
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

    /// Starts the member again at its address, without waiting for it.
    ///
    /// # Panics
    ///
    /// It does not start although it did before.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.args, Stdio::null()).expect("it has been started before");
    }

    /// Waits until a restarted member answers and knows a leader.
    ///
    /// # Panics
    ///
    /// It does not answer in time.
    pub async fn answers(&self) {
        let knows_a_leader = async || {
            let channel = Endpoint::new(self.url.clone()).expect("a URL").connect().await.ok()?;
            match MaintenanceClient::new(channel).status(StatusRequest {}).await {
                Ok(status) => (status.into_inner().leader != 0).then_some(()),
                // A member with users refuses the nameless one, once it serves.
                Err(refused) => (refused.code() == Code::InvalidArgument).then_some(()),
            }
        };
        until(&format!("{} answers", self.url), knows_a_leader).await;
    }
}

/// A member that was spawned and may not serve yet.
struct Starting {
    etcd: Etcd,
    /// Receives one message when the member serves; disconnected if it ends before.
    serving: mpsc::Receiver<()>,
}

impl Starting {
    fn spawn(dir: &Path, address: &MemberAddress, cluster: &str, more: &[&str]) -> io::Result<Self> {
        let (url, peer, dir) = (&address.url, &address.peer, dir.display().to_string());
        let args = ["--name", address.name, "--data-dir", &dir];
        let clients = ["--listen-client-urls", url, "--advertise-client-urls", url];
        let peers = ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer];
        let rest = ["--initial-cluster", cluster, "--log-outputs", "stderr", "--unsafe-no-fsync"];
        let args = args.iter().chain(&clients).chain(&peers).chain(&rest).chain(more);
        let args: Vec<String> = args.map(|arg| (*arg).to_owned()).collect();
        let mut child = spawn(&args, Stdio::piped())?;
        let log = child.stderr.take().expect("stderr is piped");
        let (serves, serving) = mpsc::channel();
        // Reads to the end, so that the member never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if line.contains(SERVING) {
                    // Fails for the lines after the first, whose receiver has gone.
                    let _ = serves.send(());
                }
            }
        });
        Ok(Self { etcd: Etcd { child, args, url: url.clone() }, serving })
    }

    /// Waits until the member answers at its own address.
    fn serving(self) -> io::Result<Etcd> {
        let waited = self.serving.recv_timeout(PATIENCE);
        waited.map_err(|error| io::Error::other(format!("{} is not served: {error}", self.etcd.url)))?;
        Ok(self.etcd)
    }
}

/// The first success of a few attempts, or the last error. A missing program is not looked for again.
fn started<T>(start: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut result = start();
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => result = start(),
            _ => break,
        }
    }
    result
}

/// `None` if no etcd is installed.
///
/// # Panics
///
/// An installed etcd did not start, or none is installed and `KSTORE_REQUIRE_ETCD` is set.
fn installed<T>(started: io::Result<T>) -> Option<T> {
    let is_required = std::env::var_os("KSTORE_REQUIRE_ETCD").is_some();
    match started {
        Ok(etcd) => Some(etcd),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_required => None,
        Err(error) => panic!("etcd does not start: {error}"),
    }
}

fn spawn(args: &[String], log: Stdio) -> io::Result<Child> {
    Command::new("etcd").args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etcd_whose_port_another_one_has_does_not_count_as_started() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let Some(first) = Etcd::start(dirs[0].path()) else { return };
        let taken = MemberAddress { name: "second", url: first.url.clone(), peer: peer() };
        let second = Starting::spawn(dirs[1].path(), &taken, &taken.in_cluster(), &[]);
        let second = second.and_then(Starting::serving);
        assert!(second.is_err_and(|error| error.to_string().contains("is not served")));
    }

    fn peer() -> String {
        format!("http://127.0.0.1:{}", free_port())
    }
}
