//! `kstore-server ui` and `run --ui`: the page, its login, and what it reads through the program. `ui/web/tests/browser.mjs` drives the
//! page in a browser.

use crate::SERVER;
use kstore_tests::Launch;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A link to the page.
struct Link {
    address: String,
    token: String,
}

impl Link {
    /// The link in the output of a program.
    fn read(output: impl BufRead) -> Self {
        let mut lines = output.lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("#login=")).expect("the program prints a link");
        let link = line.split(' ').find(|word| word.starts_with("http://127.0.0.1:")).unwrap();
        let (address, token) = link["http://".len()..].split_once("/ui/#login=").unwrap();
        Self { address: address.to_owned(), token: token.to_owned() }
    }

    /// The head and the body of the answer to a request.
    fn ask(&self, request: &str, headers: &str, body: &str) -> (String, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        write!(
            connection,
            "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The headers of a session that the link opens.
    fn open(&self) -> String {
        let body = format!(r#"{{"token":"{}"}}"#, self.token);
        let (head, body) = self.ask("POST /ui/session", "Content-Type: application/json\r\n", &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let key = body.split('"').find(|word| word.len() > 20).unwrap();
        format!("Cookie: {}\r\nkstore-ui: {key}\r\n", cookie.split(';').next().unwrap())
    }

    /// Checks that the page is there, and reads the cluster with a session only, so far as to ask why a pod is where it is.
    fn check(&self) {
        let (head, page) = self.ask("GET /ui/", "", "");
        assert!(head.starts_with("HTTP/1.1 200") && page.contains("app.js"), "{head} {page}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        let session = self.open();
        for (headers, expected) in [("", "HTTP/1.1 401"), (&*session, "HTTP/1.1 200")] {
            let (head, body) = self.ask("GET /kstore/v1/rows", headers, "");
            assert!(head.starts_with(expected), "{head} {body}");
            assert_eq!(body.contains("\"m\":\"kube-system\""), !headers.is_empty(), "{body}");
        }
        for (headers, expected) in [("", "HTTP/1.1 401"), (&*session, "HTTP/1.1 404")] {
            let (head, body) = self.ask("GET /ui/placement?pod=default/none", headers, "");
            assert!(head.starts_with(expected), "{head} {body}");
            assert_eq!(body.contains("\"none\" not found"), !headers.is_empty(), "{body}");
        }
        let role = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/kstore:see";
        let (head, body) = self.ask(role, &session, "");
        assert!(head.starts_with("HTTP/1.1 200") && body.contains("/kstore/v1/*"), "{head} {body}");
        let (head, _) = self.ask("DELETE /api/v1/namespaces/default", &session, "");
        assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    }
}

/// Ends a program by SIGINT.
fn interrupt(child: &mut Child) -> Option<i32> {
    let id = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn the_command_ui_serves_the_page_of_a_kubeconfig_until_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let mut ui = Command::new(SERVER);
    let ui = ui.args(["ui", "--no-browser", "--kubeconfig"]).arg(server.kubeconfig());
    let mut ui = ui.stdout(Stdio::piped()).spawn().unwrap();
    Link::read(BufReader::new(ui.stdout.take().unwrap())).check();
    assert_eq!(interrupt(&mut ui), Some(0));
}

#[test]
fn the_command_ui_shows_a_data_directory_and_a_snapshot_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let (data, snapshot) = (dir.path().join("data"), dir.path().join("backup.db"));
    let run = |args: &[&std::ffi::OsStr]| Command::new(SERVER).args(args).output().unwrap();
    let server = Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    drop(server);
    let saved = run(&[
        "store".as_ref(),
        "snapshot".as_ref(),
        "save".as_ref(),
        "--data-dir".as_ref(),
        data.as_ref(),
        snapshot.as_ref(),
    ]);
    assert!(saved.status.success(), "{saved:?}");
    for source in [&data, &snapshot] {
        let mut ui = Command::new(SERVER);
        let mut ui = ui.args(["ui", "--no-browser"]).arg(source).stdout(Stdio::piped()).spawn().unwrap();
        Link::read(BufReader::new(ui.stdout.take().unwrap())).check();
        assert_eq!(interrupt(&mut ui), Some(0));
    }
    let report = dir.path().join("report.html");
    std::fs::write(&report, "<!DOCTYPE html><p>").unwrap();
    let refused = run(&["ui".as_ref(), report.as_ref()]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("open it in a browser"), "{text}");
    let refused = run(&["ui".as_ref(), dir.path().as_ref()]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("it is no data directory of kstore"), "{text}");
}

#[test]
fn run_serves_the_page_of_its_cluster_and_stays_if_that_is_wanted() {
    let mut run = Command::new(SERVER);
    let run = run.args(["run", "--components", "apiserver", "--ui=stay", "--", "cat"]);
    let mut run = run.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    Link::read(&mut stderr).check();
    drop(run.stdin.take());
    Link::read(&mut stderr).check();
    assert_eq!(interrupt(&mut run), Some(0));
}
