//! `run --report` and `kstore-server report`: when a file is written, and what its command says. `ui/web/tests/browser.mjs` opens one.

use crate::SERVER;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell command on a cluster of `run`, in a folder.
fn run(folder: &Path, flags: &[&str], command: &str) -> Output {
    let mut run = Command::new(SERVER);
    let run =
        run.arg("run").args(["--components", "apiserver"]).args(flags).args(["--", "sh", "-c", command]);
    run.current_dir(folder).env("KSTORE", SERVER).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_report_is_saved_if_the_command_fails_or_always() {
    let dir = tempfile::tempdir().unwrap();
    let succeeded = run(dir.path(), &["--report", "made/quiet.html"], "true");
    assert!(succeeded.status.success() && !dir.path().join("made").exists(), "{}", stderr(&succeeded));
    let failed = run(dir.path(), &["--report", "made/failed.html"], "exit 3");
    assert_eq!(failed.status.code(), Some(3));
    assert!(stderr(&failed).contains("the report of the cluster is made/failed.html"), "{}", stderr(&failed));
    let file = std::fs::read_to_string(dir.path().join("made/failed.html")).unwrap();
    assert!(file.contains("connect-src 'none'") && file.contains("<title>kstore: sh -c exit 3</title>"));
    let commands = r#""$KSTORE" report inner.html --since oldest -n default && "$KSTORE" report --since 99999 none.html; echo "$?" > code; test ! -e none.html"#;
    let both = run(dir.path(), &["--report", "always.html:always"], commands);
    assert!(both.status.success(), "{}", stderr(&both));
    for name in ["always.html", "inner.html"] {
        assert!(std::fs::metadata(dir.path().join(name)).unwrap().len() > 100_000, "{name}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("code")).unwrap(), "3\n", "{}", stderr(&both));
    let refused = run(dir.path(), &["--report", "/proc/none/a.html:always"], "true");
    assert!(
        refused.status.success() && stderr(&refused).contains("cannot write /proc/none/a.html"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_report_of_a_lab_is_of_its_first_cluster_whose_clock_does_not_move() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--lab", "--lab-clock", "manual", "--report", "lab.html"];
    let failed = run(dir.path(), &flags, "exit 3");
    assert_eq!(failed.status.code(), Some(3));
    assert!(stderr(&failed).contains("the report of the cluster is lab.html"), "{}", stderr(&failed));
    let file = std::fs::read_to_string(dir.path().join("lab.html")).unwrap();
    assert!(file.contains("<title>kstore: sh -c exit 3</title>") && file.len() > 100_000);
}
