//! Searches with the real program over the operators of the catalogue: published bugs, re-created in Go, Python and Rust, with repaired
//! twins.
//!
//! Each search may take as long as the busiest machine needs: what it finds does not depend on the time. Those of the
//! module `catalogue` take minutes, and run in the check of that name; those of `searches` run in the check `alarms`.

mod catalogue;
mod ends;
mod searches;

use crate::SERVER;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A file of the catalogue.
fn file_of(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("explore/catalogue").join(file)
}

/// A file of the operators that are no bugs of the catalogue.
fn other_file(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("program/explore/operators").join(file)
}

/// The command of a search with one operator of the catalogue, in a folder of its own.
fn command(name: &str, flags: &[&str], folder: &Path) -> Command {
    command_of((&file_of(&format!("{name}.yaml")), operator(name)), flags, folder)
}

/// The command of a search with the scenario and the operator of another name.
fn other_command(name: &str, flags: &[&str], folder: &Path) -> Command {
    let operator = vec!["python3".into(), other_file(&format!("{name}.py")).into()];
    let mut command = command_of((&other_file(&format!("{name}.yaml")), operator), flags, folder);
    command.env("PYTHONPATH", file_of(""));
    command
}

/// The command of a search with a scenario and the command of an operator.
fn command_of((scenario, operator): (&Path, Vec<OsString>), flags: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(SERVER);
    command.arg("explore").args(flags).arg(scenario).arg("--").args(operator);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The command of an operator, whose language is that of the file with its name.
fn operator(name: &str) -> Vec<OsString> {
    if file_of(&format!("go/{name}.go")).exists() {
        return vec![installed("KSTORE_CATALOGUE_GO"), name.into()];
    }
    if file_of(&format!("rust/{name}.rs")).exists() {
        return vec![env!("CARGO_BIN_EXE_catalogue-rust").into(), name.into()];
    }
    let file = file_of(&format!("{name}.py"));
    let is_kopf = fs::read_to_string(&file).unwrap().contains("import kopf");
    let python = if is_kopf { installed("KSTORE_CATALOGUE_PYTHON") } else { "python3".into() };
    vec![python, file.into()]
}

/// The path of a program that the check `catalogue` installs, and names in a variable.
fn installed(variable: &str) -> OsString {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run .ci/checks/catalogue, which installs it"))
}

/// Searches with an operator, or with its repaired twin.
fn explore(name: &str, flags: &[&str], is_fixed: bool, folder: &Path) -> Output {
    command(name, flags, folder).args(is_fixed.then_some("--fixed")).output().unwrap()
}

/// Runs a replay file without naming the scenario, which it has.
fn alone(name: &str, file: &str, folder: &Path) -> Output {
    let mut command = Command::new(SERVER);
    command.args(["explore", "--replay", file, "--"]).args(operator(name));
    command.current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Everything that a program said.
fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Flags of a search with one pattern.
fn only(pattern: &str) -> [&str; 8] {
    ["--only", pattern, "--seeds", "0", "--max-findings", "1", "--budget", "1h"]
}

/// Finds a bug of the catalogue by a pattern, and runs its replay file with the operator and with the repaired twin.
fn finds(name: &str, pattern: &str, oracle: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = finds_in(name, pattern, oracle, folder.path());
    let repaired = explore(name, &["--replay", &file], true, folder.path());
    assert_eq!(repaired.status.code(), Some(0), "{name} fixed: {}", said(&repaired));
}

/// Finds a bug of the catalogue by a pattern, and returns the replay file, which fails again.
fn finds_in(name: &str, pattern: &str, oracle: &str, folder: &Path) -> String {
    let flags = only(pattern);
    let reports = ["--report", "text", "--report", "json=report.json"];
    let output = explore(name, &[&flags[..], &reports].concat(), false, folder);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{name}: {text}");
    let report: Value = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["oracle"] == oracle);
    let finding = finding.unwrap_or_else(|| panic!("{name}: {text}"));
    assert_eq!((&finding["pattern"], &finding["control"]), (&pattern.into(), &true.into()), "{name}: {text}");
    assert!(finding["actions"].as_array().unwrap().len() <= 3, "{name}: {text}");
    let file = finding["replay"].as_str().unwrap();
    assert!(text.contains(&format!("again: kstore-server explore --replay {file} ")), "{name}: {text}");
    assert_eq!(wall_times(&fs::read_to_string(folder.join(file)).unwrap()), Vec::<String>::new());
    let again = explore(name, &["--replay", file], false, folder);
    assert_eq!(again.status.code(), Some(1), "{name}: {}", said(&again));
    assert!(said(&again).contains(&format!("fails 1 of 1  {oracle}")), "{name}: {}", said(&again));
    file.to_owned()
}

/// Words of a text that begin like a date with a time in RFC 3339.
fn wall_times(text: &str) -> Vec<String> {
    let is_time = |word: &&str| {
        let (date, time) = word.split_once('T').unwrap_or_default();
        let numbers = date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
        numbers && time.split(':').count() == 3
    };
    let words = text.split(|c: char| c.is_whitespace() || "\"',[]{}".contains(c));
    words.filter(is_time).map(str::to_owned).collect()
}

#[test]
fn a_loop_is_found_without_a_fault_and_written_in_all_forms() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let flags = ["--only", "crash", "--runs", "0", "--seeds", "0", "--budget", "1h"];
    let files = ["json=a.json", "junit=a.xml", "sarif=a.sarif", "html=out/a.html"];
    let files = files.map(|file| ["--report", file]).concat();
    let output = explore("b20", &[&flags[..], &files].concat(), false, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stdout.is_empty(), "reports go into files: {}", said(&output));
    let json: Value = serde_json::from_str(&read("a.json")).unwrap();
    let finding = &json["findings"][0];
    assert_eq!((&finding["oracle"], &finding["pattern"]), (&"hot-loop".into(), &Value::Null), "{json:#}");
    assert!(read("a.xml").contains("<failure type=\"hot-loop\""), "{}", read("a.xml"));
    let sarif: Value = serde_json::from_str(&read("a.sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "hot-loop", "{sarif:#}");
    assert!(read("findings/s-1.log").contains("update"), "{}", read("findings/s-1.log"));
    assert_eq!(finding["report"], "out/a.html", "{json:#}");
    let page = read("out/a.html");
    assert!(page.contains(": hot-loop</title>") && page.contains("id=\"kstore-report\""));
    assert!(page.len() <= 5 << 20, "{}", page.len());
    let twin = explore("b20", &flags, true, folder.path());
    assert_eq!(twin.status.code(), Some(0), "{}", said(&twin));
}

#[test]
fn mistakes_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.yaml"), "kind: Scenario\nstepz: []\n").unwrap();
    let run = |flags: &[&str]| {
        let output =
            Command::new(SERVER).arg("explore").args(flags).current_dir(folder.path()).output().unwrap();
        (output.status.code(), said(&output))
    };
    let (code, said) = run(&["s.yaml", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    let expected = "s.yaml:2:1: a scenario has no field \"stepz\": did you mean \"steps\"?";
    assert!(said.contains(expected), "{said}");
    assert_eq!(run(&["none.yaml", "--", "true"]).0, Some(2));
    let (code, said) = run(&["--only", "crash", "--skip", "crash", "s.yaml", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    let scenario = file_of("b20.yaml").display().to_string();
    fs::write(folder.path().join("r.yaml"), "kind: Replay\n").unwrap();
    let (code, said) = run(&["--replay", "r.yaml", &scenario, "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = run(&[&scenario, "--", "sh", "-c", "echo broken; exit 7"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("ended with code 7 before it was ready:\nbroken"), "{said}");
}

#[test]
fn an_operator_is_ready_when_it_listens_at_the_port_that_its_scenario_names() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |port: &str| {
        let text = format!(
            "apiVersion: explore.kstore.io/v1alpha1\nkind: Scenario\nmetadata: {{name: ready}}\ncluster: {{components: []}}\n\
             operators: [{{name: a, ready: {{port: {port}}}}}]\nsteps:\n- exec: [sh, -c, 'test -e {{dir}}/listens-{{port:health}}']\n"
        );
        let path = folder.path().join(format!("{port}.yaml"));
        fs::write(&path, text).unwrap();
        path
    };
    // It opens no watch, and writes the file long after its start, just before it listens.
    let program = "import socket, sys, time; time.sleep(0.5); open(sys.argv[2] + '/listens-' + sys.argv[1], 'w'); \
                   socket.create_server(('127.0.0.1', int(sys.argv[1]))).accept(); time.sleep(1000)";
    let operator = || ["python3", "-c", program, "{port:health}", "{dir}"].map(OsString::from).to_vec();
    let flags = ["--only", "crash", "--runs", "0", "--seeds", "0", "--budget", "1h"];
    let output = command_of((&scenario("health"), operator()), &flags, folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = command_of((&scenario("other"), operator()), &flags, folder.path()).output().unwrap();
    assert!(said(&output).contains("no command has {port:other}"), "{}", said(&output));
    assert_ne!(output.status.code(), Some(0));
}

/// Flags of a search that takes the references alone.
const REFERENCES: [&str; 8] = ["--only", "crash", "--runs", "0", "--seeds", "0", "--budget", "1h"];

#[test]
fn replicas_elect_their_leader_and_have_ports_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let operator = other_file("standby.py");
    let operator = ["python3".into(), operator.into(), "{dir}".into(), "{port:leads}".into()].to_vec();
    let mut command = command_of((&other_file("standby.yaml"), operator), &REFERENCES, folder.path());
    let output = command.env("PYTHONPATH", file_of("")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn an_operator_serves_an_api_and_single_controllers_run() {
    let folder = tempfile::tempdir().unwrap();
    let serving = rcgen::generate_simple_self_signed(["ext.hooks.svc".to_owned()]).unwrap();
    let files = [
        ("EXTENSION_CERTIFICATE", serving.cert.pem()),
        ("EXTENSION_KEY", serving.signing_key.serialize_pem()),
    ];
    let program = other_file("extension.py");
    let operator = ["python3".into(), program.clone().into(), "{port:ext}".into()].to_vec();
    let mut command = command_of((&other_file("extension.yaml"), operator), &REFERENCES, folder.path());
    command.env("PYTHONPATH", file_of("")).env("EXTENSION", program);
    for (variable, text) in files {
        let path = folder.path().join(variable);
        fs::write(&path, text).unwrap();
        command.env(variable, path);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
