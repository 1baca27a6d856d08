//! What new users do first: they stop and merge, ask for certificates, mistype, and kill what they started.

use super::*;

#[test]
fn stop_ends_the_server_of_a_directory_and_does_nothing_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let stop = || output(&["stop", "--data-dir", &data]);
    let unused = stop();
    assert_eq!(unused.status.code(), Some(1));
    assert!(text(&unused.stderr).contains("no server has used"), "{}", text(&unused.stderr));
    let mut server = start(&["--listen", "127.0.0.1:0", "--data-dir", &data, "--components", "apiserver"]);
    let stopped = stop();
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    let expected = format!("stopped the server on {data} (process {})\n", server.process.id());
    assert_eq!(text(&stopped.stdout), expected);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    assert_eq!(text(&stop().stdout), format!("no server runs on {data}\n"));
}

#[test]
fn a_merged_kubeconfig_and_an_issued_certificate_are_those_of_the_named_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--in-memory", "--name", "blue", "--listen", "127.0.0.1:0", "--components", "apiserver,controllers"];
    let server = start(&flags);
    let kubeconfig = server.kubeconfig.to_str().unwrap();
    let home = |arguments: &[&str]| {
        let output =
            binary().args(arguments).env("HOME", dir.path()).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let config = dir.path().join(".kube/config");
    let merged = home(&["kubeconfig", "--merge", "--kubeconfig", kubeconfig]);
    let expected =
        format!("{}: added context \"kstore-blue\" and made it the current one\n", config.display());
    assert_eq!(merged, expected);
    // The merged file is one of an administrator, and a second user has entries of its own.
    let jane = ["kubeconfig", "jane", "--merge", "--kubeconfig", config.to_str().unwrap()];
    assert!(home(&jane).contains("added context \"jane@kstore-blue\""));
    assert_eq!(std::fs::read_to_string(&config).unwrap().matches("client-key-data").count(), 2);
    let issued = home(&["certs", "issue", "localhost,127.0.0.1", "--kubeconfig", kubeconfig]);
    assert_eq!(issued, "localhost: tls.crt, tls.key and ca.crt for localhost, 127.0.0.1\n");
    let file = |name: &str| std::fs::read_to_string(dir.path().join("localhost").join(name)).unwrap();
    assert!(file("tls.crt").contains("BEGIN CERTIFICATE") && file("tls.key").contains("PRIVATE KEY"));
    assert!(file("ca.crt").contains("BEGIN CERTIFICATE"));
}

#[test]
fn plain_http_and_commands_of_other_tools_are_answered_with_what_to_do() {
    use std::io::Write as _;
    let server = start(&["--in-memory", "--listen", "127.0.0.1:0", "--components", "apiserver"]);
    let mut client = std::net::TcpStream::connect(&server.address).unwrap();
    client.write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    for words in [&["start"][..], &["create", "cluster"], &["up", "--nodes", "3"]] {
        let refused = output(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("without a command kstore-server starts the server"), "{said}");
    }
    let short = text(&output(&["-h"]).stdout);
    assert!(short.lines().count() < 100 && short.contains("--data-dir"), "{short}");
    let none = binary().arg("run").stdin(Stdio::null()).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("say which command to run"), "{}", text(&none.stderr));
}

/// Values that no server can read are named once, with their number, when they are restored.
#[tokio::test]
async fn a_restore_names_values_that_no_server_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let map = |name: &str| format!("/registry/configmaps/default/{name}");
    let valid = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}}}}"#
        )
    };
    let store = Store::open(Config::durable(path("data")), Nondet::real()).await.unwrap();
    for (name, value) in [("good", valid("good")), ("healed", "{".into()), ("gone", "{".into())] {
        store.put(map(name), value).await.unwrap();
    }
    store.put(map("healed"), valid("healed")).await.unwrap();
    store.delete(map("gone")).await.unwrap();
    for (key, value) in [(map("bad"), "k8s\0nonsense"), (map("worse"), ""), ("/other".into(), "{")] {
        store.put(key, value).await.unwrap();
    }
    store.close().await;
    let saved = output(&["store", "snapshot", "save", &path("file.db"), "--data-dir", &path("data")]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let restored =
        output(&["store", "snapshot", "restore", &path("file.db"), "--data-dir", &path("restored")]);
    let said = text(&restored.stderr);
    assert!(restored.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let expected = "kstore-server: 2 stored values cannot be read, and a server will not serve these objects. The first: the stored \
                    value of /registry/configmaps/default/bad is not a valid object";
    assert!(said.starts_with(expected) && said.contains("--storage-media-type=application/json"), "{said}");
}

/// Regression: the children of the command, such as an operator in the background, lived on.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_takes_the_children_of_its_command_along_and_an_ended_one_leaves_them_alone() {
    let gone = |id: &str| {
        (0..20_000).any(|_| {
            std::thread::yield_now();
            Command::new("true").status().unwrap();
            !is_alive(id)
        })
    };
    // In a session of its own, as a daemon, and in a run within the run.
    let nested = format!(
        "{} run --components apiserver -- sleep 1000 & sleep 1000",
        env!("CARGO_BIN_EXE_kstore-server")
    );
    for child in ["sleep 1000", "setsid sleep 1000", &format!("sh -c '{nested}'")] {
        let script = format!("{child} & echo $!; echo \"$KUBECONFIG\"; wait");
        let (mut run, id, _) = run_script(&script);
        assert!(is_alive(&id));
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(gone(&id), "{child} still runs");
    }
    let (mut run, id, _) = run_script("sleep 1000 >/dev/null & echo $!; echo \"$KUBECONFIG\"");
    assert!(run.wait().unwrap().success());
    assert!(is_alive(&id), "what the command left running is not ended");
    let left = rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}
