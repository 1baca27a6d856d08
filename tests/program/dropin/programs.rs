//! The tools of a test harness: the folder of programs, child processes, certificates made in advance, and
//! requests over TLS.

use crate::SERVER;
use kstore_client::{Identity, Kubeconfig};
/// Time limit for a program to become ready, or to end.
pub(super) use kstore_tests::wait::PATIENCE as READY;
use kstore_tests::{Https, Reply, parse_reply};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SerialNumber,
};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
/// Interval between readiness checks.
const PAUSE: Duration = Duration::from_millis(10);

/// The folder that `kstore-server assets` creates in `dir`, as its output names it.
pub(super) fn assets(dir: &Path) -> PathBuf {
    let output = Command::new(SERVER).arg("assets").arg(dir.join("assets")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let folder = text.trim().strip_prefix("export KUBEBUILDER_ASSETS=");
    folder.unwrap_or_else(|| panic!("{text:?} {:?}", String::from_utf8_lossy(&output.stderr))).into()
}

/// Runs a program to its end and returns its output.
pub(super) fn output(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

/// A running program, killed on drop.
pub(super) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program of the assets in its own process group, with its log in `dir`.
    pub(super) fn start(program: &Path, args: &[String], dir: &Path) -> Self {
        Self::start_in(program, args, &[], dir)
    }

    /// Starts a program with additional environment variables.
    pub(super) fn start_in(
        program: &Path,
        args: &[String],
        environment: &[(&str, &str)],
        dir: &Path,
    ) -> Self {
        let log = dir.join(format!("{}.log", program.file_name().unwrap().to_str().unwrap()));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0);
        command.envs(environment.iter().copied());
        Self { child: command.spawn().unwrap(), log }
    }

    /// The program's standard error.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Panics if the program has ended.
    pub(super) fn check(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended early ({status}): {}", self.log.display(), self.log());
        }
    }

    /// Sends SIGTERM. Returns the exit status and how long the exit took.
    pub(super) async fn terminate(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        while began.elapsed() < READY {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            sleep(PAUSE / 5).await;
        }
        panic!("still running after SIGTERM: {}", self.log());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate and its key in PEM.
pub(super) struct CertificatePair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl CertificatePair {
    /// Writes the files `NAME.crt` and `NAME.key`.
    pub(super) fn write(&self, dir: &Path, name: &str) {
        std::fs::write(dir.join(format!("{name}.crt")), &self.certificate).unwrap();
        std::fs::write(dir.join(format!("{name}.key")), &self.key).unwrap();
    }
}

/// A small certificate authority like envtest's: all have one subject and count their certificates from the
/// same number.
pub(super) struct Authority {
    pub(super) pair: CertificatePair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "envtest");
        params.distinguished_name.push(DnType::CommonName, "envtest-environment");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.serial_number = Some(SerialNumber::from(0u64));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let pair = CertificatePair { certificate, key: key.serialize_pem() };
        Self { pair, issuer: Issuer::new(params, key) }
    }

    fn leaf(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> CertificatePair {
        params.serial_number = Some(SerialNumber::from(1u64));
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        CertificatePair { certificate, key: key.serialize_pem() }
    }

    /// A certificate of a server on this machine.
    pub(super) fn serving(&self) -> CertificatePair {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "localhost");
        self.leaf(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate of a user.
    pub(super) fn client(&self, user: &str, group: &str) -> CertificatePair {
        self.leaf(user_params(user, group), ExtendedKeyUsagePurpose::ClientAuth)
    }
}

fn user_params(user: &str, group: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params
}

/// A self-signed certificate of a user, which is its own authority.
pub(super) fn self_signed_client(user: &str, group: &str) -> CertificatePair {
    let key = KeyPair::generate().unwrap();
    let certificate = user_params(user, group).self_signed(&key).unwrap().pem();
    CertificatePair { certificate, key: key.serialize_pem() }
}

/// A client of the apiserver on this port, with this certificate, trusting `ca` (PEM).
pub(super) fn https(port: u16, ca: &str, client: &CertificatePair) -> Https {
    let identity =
        Identity { certificate: client.certificate.clone().into(), key: client.key.clone().into() };
    Https::new(&Kubeconfig {
        server: format!("https://127.0.0.1:{port}"),
        ca: Some(ca.into()),
        tls_server_name: None,
        insecure: false,
        identity: Some(identity),
        token: None,
        namespace: "default".into(),
        cluster: "kubernetes".into(),
    })
}

/// A GET with additional header lines, each with its line end. `None` if the server does not listen yet.
pub(super) async fn get(server: &Https, path: &str, headers: &str) -> Option<Reply> {
    send(server, ("GET", path), headers, "").await
}

/// A request with a method and a JSON body, otherwise as [`get`].
pub(super) async fn send(
    server: &Https,
    (method, path): (&str, &str),
    headers: &str,
    body: &str,
) -> Option<Reply> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let mut tls = timeout(READY, server.try_connect()).await.unwrap().ok()?;
    tls.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    (!answer.is_empty()).then(|| parse_reply(&answer))
}

/// Waits until a page answers 200. Panics if `program` ends.
pub(super) async fn ready(server: &Https, path: &str, headers: &str, program: &mut Program) {
    let began = Instant::now();
    while began.elapsed() < READY {
        program.check();
        if get(server, path, headers).await.is_some_and(|reply| reply.code == 200) {
            return;
        }
        sleep(PAUSE).await;
    }
    panic!("{path} is not ready: {}", program.log());
}

/// Waits until the health page of an etcd answers 200.
pub(super) async fn etcd_ready(port: u16, program: &mut Program) {
    let began = Instant::now();
    while began.elapsed() < READY {
        program.check();
        if health(port).await.is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            return;
        }
        sleep(PAUSE).await;
    }
    panic!("/health is not ready: {}", program.log());
}

async fn health(port: u16) -> Option<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// Splits a command line into words.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
