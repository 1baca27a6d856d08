//! Start times of the drop-in programs `etcd` and `kube-apiserver`, with envtest's flags, and of `kstore-server run`. Every start has a new
//! directory.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{START_TIMEOUT, STARTS};
use crate::measurement::Measurement;
use crate::spread::Spread;
use anyhow::{Context, ensure};
use kstore_client::Kubeconfig;
use rcgen::{CertificateParams, DnType, KeyPair};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

#[path = "../../tests/src/ports.rs"]
mod ports;

/// Pause between two readiness checks; envtest's is 100 ms.
const POLL: Duration = Duration::from_millis(1);

/// Measures the start of the two programs, and of a cluster for one command.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let pairs = pairs(&binary).await?.to_string();
    let runs = runs(&binary).await?.to_string();
    Ok(vec![
        Measurement::new(
            "drop-in etcd and kube-apiserver, from launch to 200 of `/healthz`",
            "≤ 60 ms",
            pairs,
        ),
        Measurement::new("`kstore-server run -- true`", "≤ 60 ms", runs),
    ])
}

/// Times from the launch of `etcd` to the first 200 of the apiserver's `/healthz`. The apiserver is launched when etcd is healthy.
pub(crate) async fn pairs(binary: &Binary) -> anyhow::Result<Spread> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let start = start_pair(binary);
        times.push(
            tokio::time::timeout(START_TIMEOUT, start).await.context("the pair is not ready in time")??,
        );
    }
    Ok(Spread::of(times))
}

/// Times of `kstore-server run -- true`, from launch to exit.
pub(crate) async fn runs(binary: &Binary) -> anyhow::Result<Spread> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let launched = Instant::now();
        let status = quiet(binary, &["run", "--", "true"].map(str::to_owned)).status().await?;
        ensure!(status.success(), "`run -- true` ended with {status}");
        times.push(launched.elapsed());
    }
    Ok(Spread::of(times))
}

async fn start_pair(binary: &Binary) -> anyhow::Result<Duration> {
    let dir = tempfile::tempdir()?;
    let [client, peer, port] = [(); 3].map(|()| ports::reserve());
    let apiserver = Kubeconfig {
        server: format!("https://127.0.0.1:{port}"),
        ca: Some(write_keys(dir.path())?),
        tls_server_name: None,
        insecure: false,
        identity: None,
        token: None,
        namespace: "default".to_owned(),
        cluster: "kstore".to_owned(),
    };
    let data = dir.path().display();
    let url = format!("http://127.0.0.1:{client}");
    let etcd = [
        format!("--advertise-client-urls={url}"),
        format!("--data-dir={data}/etcd"),
        format!("--listen-client-urls={url}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        "--unsafe-no-fsync=true".to_owned(),
    ];
    let kube_apiserver = [
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={data}"),
        format!("--client-ca-file={data}/apiserver.crt"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--etcd-servers={url}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={data}/apiserver.crt"),
        format!("--service-account-signing-key-file={data}/apiserver.key"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ];
    let launched = Instant::now();
    let etcd = launch(binary, "etcd", &etcd)?;
    while !is_healthy(client).await {
        sleep(POLL).await;
    }
    let kube_apiserver = launch(binary, "kube-apiserver", &kube_apiserver)?;
    while !is_ready(&apiserver).await {
        sleep(POLL).await;
    }
    let took = launched.elapsed();
    for mut program in [kube_apiserver, etcd] {
        program.kill().await?;
    }
    Ok(took)
}

fn launch(binary: &Binary, program: &str, flags: &[String]) -> anyhow::Result<Child> {
    let words: Vec<String> =
        ["as", program].map(str::to_owned).into_iter().chain(flags.iter().cloned()).collect();
    quiet(binary, &words).spawn().with_context(|| format!("cannot start {}", binary.path().display()))
}

/// A command whose output is discarded, as test harnesses do.
fn quiet(binary: &Binary, words: &[String]) -> Command {
    let mut command = Command::new(binary.path());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

/// Writes the serving certificate and its key, which are its own authority; returns the certificate in PEM.
fn write_keys(dir: &Path) -> anyhow::Result<Vec<u8>> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    let certificate = params.self_signed(&key)?.pem();
    std::fs::write(dir.join("apiserver.crt"), &certificate)?;
    std::fs::write(dir.join("apiserver.key"), key.serialize_pem())?;
    Ok(certificate.into_bytes())
}

/// Whether etcd answers `GET /health` with 200.
async fn is_healthy(port: u16) -> bool {
    let answer = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").await?;
        let mut line = [0; 12];
        stream.read_exact(&mut line).await?;
        std::io::Result::Ok(line)
    };
    answer.await.is_ok_and(|line| &line == b"HTTP/1.1 200")
}

/// Whether the apiserver answers `GET /healthz` with 200 on a new connection without credentials.
async fn is_ready(apiserver: &Kubeconfig) -> bool {
    let answer = async { Connection::open(apiserver).await?.get("/healthz").await };
    answer.await.is_ok_and(|(status, _)| status == 200)
}
