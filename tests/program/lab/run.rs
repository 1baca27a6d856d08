//! `kstore-server run --lab`, with kubectl as the client of both the cluster and the lab.

use crate::SERVER;
use kstore_tests::manifests;
use kstore_tests::wait::until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `run` with the lab and these flags.
fn run(dir: &Path, flags: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(SERVER);
    run.args(["run", "--lab"]).args(flags).arg("--").args(command).current_dir(dir).stdin(Stdio::null());
    run
}

/// Runs a script of kubectl commands; `None` if kubectl is not installed.
fn script(dir: &Path, flags: &[&str], script: &str) -> Option<Output> {
    let kubectl = Command::new("kubectl").args(["version", "--client"]).output();
    kubectl.is_ok_and(|output| output.status.success()).then_some(())?;
    std::fs::write(dir.join("script.sh"), script).unwrap();
    let output = run(dir, flags, &["sh", "-eu", "script.sh"]).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    Some(output)
}

/// An operator of a few lines: it records each Job that it sees in a ConfigMap. kubectl ends with its watch, as watches do after half an
/// hour to an hour, by the cluster's clock.
const OPERATOR: &str = r#"
while :; do
    kubectl get jobs --watch -o name | while read -r job; do
        record="record-${job#*/}"
        kubectl get configmap "$record" >/dev/null 2>&1 || kubectl create configmap "$record" >/dev/null
    done
done
"#;

#[test]
fn an_operator_of_kubectl_keeps_up_with_hours_that_pass_in_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("operator.sh"), OPERATOR).unwrap();
    let output = script(
        dir.path(),
        &["--lab-clock", "manual", "--nodes", "1"],
        r#"
        L=/kstore/lab/v1
        setsid sh operator.sh & operator=$!
        # All requests of kubectl are the operator's: the process says when it has nothing to do.
        echo "{\"match\":{\"agent\":\"kubectl\"},\"process\":$operator}" | kubectl replace --raw $L/clients/operator -f - >/dev/null
        until kubectl get --raw $L/clients | grep -q '"watches":1'; do sleep 0.1; done
        kubectl create cronjob hourly --image=a --schedule='0 * * * *' -- true >/dev/null
        echo '{}' | kubectl create --raw $L/settled -f - >/dev/null
        echo '{"by":"3h","patience":"5m"}' | kubectl create --raw $L/clock/advance -f -
        kubectl get configmaps -o name | grep record- | wc -l
        kubectl get --raw "$L/requests?client=operator&verb=create&resource=configmaps" | grep -o '"resource":"configmaps"' | wc -l
        kill -- -"$operator"
        "#,
    );
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert!(lines[0].contains("\"ended\":\"there\""), "{said}");
    assert_eq!(lines[1..], ["3", "3"], "{said}");
}

#[test]
fn kubectl_reaches_the_lab_of_a_cluster_and_of_its_fork() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        &["--lab-clock", "manual", "--components", "apiserver"],
        r#"
        L=/kstore/lab/v1
        test "$KSTORE_LAB" = "$(kubectl config view --minify --raw -o 'jsonpath={.clusters[0].cluster.server}')$L"
        echo '{"name":"fork"}' | kubectl create --raw $L/clusters -f - >/dev/null
        server=$(kubectl get --raw $L/clusters/fork | grep -o '"url":"[^"]*"' | cut -d'"' -f4)
        kubectl --server "$server" create configmap only-there >/dev/null
        kubectl --server "$server" get configmap only-there -o name
        kubectl get configmap only-there -o name 2>&1 || true
        echo '{"by":"1h"}' | kubectl --server "$server" create --raw $L/clock/advance -f - | grep -c there
        echo '{"buy":"1h"}' | kubectl create --raw $L/clock/advance -f - 2>&1 || true
        kubectl delete --raw $L/clusters/fork >/dev/null
        kubectl get --raw $L/clusters/fork 2>&1 || true
        "#,
    );
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "configmap/only-there");
    assert!(lines[1].contains("\"only-there\" not found"), "{said}");
    assert_eq!(lines[2], "1");
    assert!(lines[3].contains("/buy: is no member; did you mean \"by\"?"), "{said}");
    assert!(lines[4].contains("the lab has no cluster \"fork\""), "{said}");
}

#[test]
fn objects_are_available_before_the_command_starts_although_no_time_passes_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("web.json"), manifests::deployment("web", 2).to_string()).unwrap();
    let flags = ["--lab-clock", "manual", "--nodes", "1", "--manifest", "web.json", "--wait=available"];
    let output = run(dir.path(), &flags, &["true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let none = ["--lab-clock", "manual", "--nodes", "0", "--manifest", "web.json", "--wait=available"];
    let output = run(dir.path(), &none, &["true"]).output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(75), "{complained}");
    assert!(complained.contains("0 of 2 updated replicas are available"), "{complained}");
}

#[test]
fn ctrl_c_ends_a_run_with_its_lab_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let wait = ["sh", "-c", "echo \"$KSTORE_LAB\"; echo $$; exec sleep 600"];
    let mut command = run(dir.path(), &["--lab-clock", "auto", "--nodes", "1"], &wait);
    let mut child = command.env("TMPDIR", &temporary).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (url, pid) = (lines.next().unwrap(), lines.next().unwrap());
    let address = url.strip_prefix("https://").and_then(|rest| rest.strip_suffix("/kstore/lab/v1"));
    let address: std::net::SocketAddr = address.unwrap().parse().unwrap();
    std::net::TcpStream::connect(address).unwrap();
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(std::net::TcpStream::connect(address).is_err(), "nothing listens");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let gone = async || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(());
    runtime.block_on(until("the command has ended", gone));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
