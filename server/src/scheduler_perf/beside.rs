//! A kube-scheduler as a process of its own (`--beside`), which schedules the pods of a workload instead of the scheduler of this process.

use super::document::Workload;
use anyhow::{Context, bail};
use kstore_cluster::ControlPlane;
use kstore_lab::{Authority, Credentials};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// The user that the roles of kube-scheduler are bound to.
const USER: &str = "system:kube-scheduler";
/// The requests a second that scheduler_perf allows the scheduler, and as many at once.
const REQUESTS: u32 = 5000;
/// How many lines of the program's log are in the error when it ends.
const SHOWN_LINES: usize = 5;

/// A running kube-scheduler, killed on drop.
pub(super) struct KubeScheduler {
    child: Child,
    files: TempDir,
}

impl KubeScheduler {
    /// Starts the program with the configuration and the feature gates of a workload. The API server listens for it on a port of the
    /// loopback interface.
    pub(super) async fn start(
        program: &Path,
        workload: &Workload,
        plane: &ControlPlane,
    ) -> anyhow::Result<Self> {
        let authority = Authority::new(&[])?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let url = format!("https://{}", listener.local_addr()?);
        plane.phases().listeners.spawn("listener", plane.api().serve(listener, authority.tls()));
        let files = tempfile::tempdir().context("cannot make a folder for the files of the program")?;
        let kubeconfig = files.path().join("kubeconfig");
        let credentials = Credentials::Certificate(USER, &[]);
        std::fs::write(&kubeconfig, authority.kubeconfig(&url, &credentials)?)?;
        let given = match &workload.scheduler_config {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
            }
            None => String::new(),
        };
        let config = files.path().join("config.yaml");
        std::fs::write(&config, configuration(&given, &kubeconfig)?)?;
        let log = std::fs::File::create(files.path().join("log"))?;
        let child = Command::new(program)
            .arg(format!("--config={}", config.display()))
            .args(["--secure-port=0", "--v=0"])
            .args(gates(&workload.gates))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, files })
    }

    /// Waits for the end of the program, which is an error with the last lines of its log.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        let status =
            self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        let log = std::fs::read_to_string(self.files.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        anyhow::anyhow!("the kube-scheduler has ended ({status}):\n{shown}")
    }

    /// Ends the program.
    pub(super) async fn end(mut self) {
        // It may have ended already.
        let _ = self.child.kill().await;
    }
}

/// The configuration of a workload with the connection of the program, which elects no leader.
fn configuration(given: &str, kubeconfig: &Path) -> anyhow::Result<String> {
    let mut value: Value = serde_yaml_ng::from_str(given).context("the configuration of the scheduler")?;
    if value.is_null() {
        value =
            json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    }
    if !value.is_object() {
        bail!("the configuration of the scheduler is no object");
    }
    value["leaderElection"] = json!({ "leaderElect": false });
    value["clientConnection"] = json!({ "kubeconfig": kubeconfig, "qps": REQUESTS, "burst": REQUESTS });
    Ok(value.to_string())
}

/// The flag with the feature gates of a workload, if it has any.
fn gates(gates: &BTreeMap<String, bool>) -> Option<String> {
    let gates: Vec<_> = gates.iter().map(|(name, is_on)| format!("{name}={is_on}")).collect();
    (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_the_configuration_of_the_workload_and_its_own_connection() {
        let read = |given: &str| -> Value {
            serde_json::from_str(&configuration(given, Path::new("/k")).unwrap()).unwrap()
        };
        let value = read(
            "{apiVersion: a, kind: b, percentageOfNodesToScore: 7, leaderElection: {leaderElect: true}}",
        );
        assert_eq!((&value["apiVersion"], &value["percentageOfNodesToScore"]), (&json!("a"), &json!(7)));
        assert_eq!(value["leaderElection"], json!({ "leaderElect": false }));
        assert_eq!(value["clientConnection"], json!({ "kubeconfig": "/k", "qps": 5000, "burst": 5000 }));
        assert_eq!(read("")["kind"], "KubeSchedulerConfiguration");
        assert!(configuration("[]", Path::new("/k")).unwrap_err().to_string().contains("no object"));
    }

    #[test]
    fn gates_are_one_flag() {
        assert_eq!(gates(&BTreeMap::new()), None);
        let some = BTreeMap::from([("B".to_owned(), false), ("A".to_owned(), true)]);
        assert_eq!(gates(&some).unwrap(), "--feature-gates=A=true,B=false");
    }
}
