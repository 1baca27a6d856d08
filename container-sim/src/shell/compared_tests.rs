//! Scripts whose output and exit codes were recorded from busybox 1.35, in `testdata`. Where a busybox is installed, the records are
//! compared with it too; else the test says so.

use super::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A script with what a real shell prints.
struct Recorded {
    script: String,
    out: String,
    err: String,
    code: i32,
}

/// The records of a file.
fn records(name: &str) -> Vec<Recorded> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let record = |text: &str| {
        let (script, rest) = text.split_once("\n---- stdout\n").unwrap();
        let (out, rest) = rest.split_once("---- stderr\n").unwrap();
        let (err, code) = rest.split_once("---- exit ").unwrap();
        // A backslash at the end says that the last line has no newline.
        let plain = |text: &str| text.strip_suffix("\\\n").unwrap_or(text).to_owned();
        Recorded {
            script: script.to_owned(),
            out: plain(out),
            err: plain(err),
            code: code.trim().parse().unwrap(),
        }
    };
    text.split("====\n").map(record).collect()
}

/// Runs a script in the simulated shell.
fn simulated(script: &str) -> (String, String, i32) {
    let variables = [("PATH", "/bin"), ("HOME", "/root")];
    let environment = Environment {
        hostname: "web".to_owned(),
        workdir: "/work".to_owned(),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Environment::default()
    };
    let argv = ["sh", "-c", script].map(str::to_owned);
    let mut shell = Shell::run(environment, &argv).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        match shell.step() {
            ShellStep::Print(1, bytes) => out.extend(bytes.into_bytes()),
            ShellStep::Print(_, bytes) => err.extend(bytes.into_bytes()),
            ShellStep::Sleep(_) | ShellStep::Yield => {}
            // There is no network.
            ShellStep::Network(..) => {}
            ShellStep::Read => shell.input(None),
            ShellStep::ReadLine => shell.line(None),
            ShellStep::Exit(code) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                return (text(out), text(err), i32::from(code));
            }
        }
    }
    (String::new(), "does not end".to_owned(), -1)
}

fn compare(name: &str) {
    let mut wrong = Vec::new();
    for Recorded { script, out, err, code } in records(name) {
        let found = simulated(&script);
        if found != (out.clone(), err.clone(), code) {
            wrong.push(format!(
                "{script}\n  busybox: {out:?} {err:?} {code}\n  here:    {:?} {:?} {}",
                found.0, found.1, found.2
            ));
        }
    }
    assert!(wrong.is_empty(), "{} scripts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scripts_run_as_in_busybox() {
    compare("shell.txt");
}

#[test]
fn programs_print_what_busybox_prints() {
    compare("tools.txt");
}

/// Runs a script in the real shell. The programs in `programs` are busybox' own.
fn real(script: &str, programs: &Path, folder: &Path) -> (String, String, i32) {
    use std::os::unix::process::ExitStatusExt as _;
    std::fs::create_dir_all(folder).unwrap();
    let mut command = Command::new(programs.join("sh"));
    command.args(["-c", script]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", programs).env("HOME", "/root");
    let output = command.output().unwrap();
    let _ = std::fs::remove_dir_all(folder);
    let prefix = format!("{}/", programs.display());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&prefix, "");
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    (text(&output.stdout), text(&output.stderr), code)
}

/// Whether this machine has the busybox that the records are of.
fn has_busybox() -> bool {
    let help = Command::new("busybox").arg("--help").output();
    let version = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let found = version.starts_with("BusyBox v1.35");
    if !found {
        println!("not compared: busybox 1.35 is not installed");
    }
    found
}

#[test]
fn the_records_are_those_of_the_installed_busybox() {
    if !has_busybox() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("kstore-busybox-{}", std::process::id()));
    let programs = folder.join("bin");
    std::fs::create_dir_all(&programs).unwrap();
    let installed = Command::new("busybox").args(["--install", "-s"]).arg(&programs).status();
    assert!(installed.unwrap().success());
    let mut wrong = Vec::new();
    for Recorded { script, out, err, code } in records("shell.txt").into_iter().chain(records("tools.txt")) {
        let found = real(&script, &programs, &folder.join("work"));
        if found != (out, err, code) {
            wrong.push(format!("{script}: {found:?}"));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(wrong.is_empty(), "{} records differ:\n{}", wrong.len(), wrong.join("\n"));
}
