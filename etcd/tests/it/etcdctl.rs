//! etcdctl against both servers: the same commands print the same text, except server-specific values.

use crate::comparison::Comparison;
use crate::etcd_process::tool;
use std::io::Write as _;
use std::process::Stdio;

/// Command lines; the text after ` < ` is the standard input.
const SCRIPT: &[&str] = &[
    "put a 1",
    "put a 2 --prev-kv",
    "put b 3",
    "put --ignore-value b x",
    "put --ignore-value b",
    "put --ignore-value none",
    "put --ignore-lease none x",
    "put --lease=1234 c 4",
    "get a",
    "get a z",
    "get none",
    "get a -w json",
    "get a z -w fields",
    "get a --rev=2",
    "get a --rev=99",
    "get a z --limit=1 --sort-by=MODIFY --order=DESCEND",
    "get a z --sort-by=VALUE",
    "get --keys-only a z",
    "get --count-only a z -w fields",
    "get --from-key a --print-value-only",
    "get --prefix a -w simple --consistency=s",
    "del none",
    "del a --prev-kv",
    "del --prefix x",
    "del b z",
    "txn < mod(\"k\") = \"0\"\n\nput k 1\n\nget k\n\n",
    "txn < mod(\"k\") = \"0\"\n\nput k 1\n\nget k\n\n",
    "txn < value(\"k\") = \"1\"\n\nput k 2\nget k\ndel k\n\nget k\n\n",
    "txn -w json < create(\"k\") > \"0\"\nver(\"k\") < \"9\"\n\nput k 2\nget k\n\nget k\n\n",
    "txn < nonsense\n",
    "lease grant 0 -w table",
    "lease grant 9000000001",
    "lease revoke 77",
    "lease timetolive 77",
    "lease keep-alive --once 77",
    "compact 4",
    "compact 4",
    "compact 99",
    "compact 5 --physical",
    "get a --rev=2",
    "endpoint health",
    "endpoint status -w json",
    "endpoint status --cluster",
    "endpoint hashkv",
    "endpoint hashkv --cluster -w json",
    "alarm list",
    "alarm disarm",
    "defrag",
    "defrag --cluster",
    "member list",
    "member list -w json",
    "member list -w table",
    "member remove 1",
    "member promote 1",
    "member add x --peer-urls=foo",
    "move-leader 1",
    "auth status",
    "auth enable",
    "auth disable",
    "user list",
    "user get x",
    "user delete x",
    "user grant-role x y",
    "user revoke-role x y",
    "user passwd x --interactive=false < word\n",
    "role list",
    "role get x",
    "role delete x",
    "role grant-permission x read k",
    "role revoke-permission x k",
    "lock name echo locked",
    "version",
];

/// Output and exit status of a command, both streams together, without server-specific values.
fn run(url: &str, line: &str) -> String {
    let (arguments, input) = line.split_once(" < ").unwrap_or((line, ""));
    let mut command = tool("etcdctl");
    command
        .args(["--endpoints", url, "--command-timeout", "60s", "--dial-timeout", "60s"])
        .args(arguments.split(' '));
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = pipes.spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    // etcdctl's own log repeats the error with times and addresses.
    let lines = text.lines().filter(|line| !line.starts_with(r#"{"level":"#) && !is_rule(line));
    let lines: Vec<_> = lines.map(|line| levelled(url, line)).collect();
    format!("{}\n[{:?}]", lines.join("\n"), output.status.code())
}

/// Whether a line separates rows of a table; its length depends on names.
fn is_rule(line: &str) -> bool {
    line.starts_with("+-") && line.bytes().all(|byte| matches!(byte, b'+' | b'-'))
}

/// Replaces server-specific values. Integers with many digits are ids; times and sizes have units.
fn levelled(url: &str, line: &str) -> String {
    // etcd's peer URL has another port.
    let line = line.replace(url, "URL");
    let parts = line.split("http://127.0.0.1:").enumerate().map(|(number, part)| match number {
        0 => part.to_owned(),
        _ => format!("URL{}", part.trim_start_matches(|c: char| c.is_ascii_digit())),
    });
    let line = parts.collect::<String>().replace("kstore", "NAME").replace("default", "NAME");
    let line =
        line.replace("3.6.0", "VERSION").replace("3.5.30", "VERSION").replace(['│', '─', '┬', '┴', '┼'], " ");
    let is_own = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_hex = word.len() >= 14 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex
            || digits >= 15
            || word.ends_with("ms")
            || word.ends_with("µs")
            || word.ends_with('s') && digits > 3
    };
    let words = line.split([' ', ',', ':', '[', ']', '{', '}']).filter(|word| !word.is_empty());
    words.map(|word| if is_own(word) { "OWN" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Removes sizes and log positions, which are server-specific.
fn without_figures(text: &str) -> String {
    let own = ["dbSize", "raftIndex", "raftAppliedIndex", "storageVersion", "dbSizeInUse", "dbSizeQuota"];
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let previous = words.last().copied().unwrap_or_default().trim_matches('"');
        words.push(if own.contains(&previous) { "OWN" } else { word });
    }
    words.join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_prints_the_same_for_both() {
    let Some(comparison) = Comparison::begin().await else { return };
    let (theirs, ours) = (comparison.etcd.url().to_owned(), comparison.ours.url.clone());
    let differing = tokio::task::spawn_blocking(move || {
        let differs = |line: &&str| {
            let (ours, theirs) = (run(&ours, line), run(&theirs, line));
            let same =
                without_figures(&ours) == without_figures(&theirs) || line.contains("status --cluster");
            if !same {
                eprintln!("etcdctl {line}\nkstore: {ours}\netcd: {theirs}");
            }
            !same
        };
        assert!(run(&ours, "put first 1").starts_with("OK\n"), "etcdctl reaches kstore");
        assert!(run(&theirs, "put first 1").starts_with("OK\n"), "etcdctl reaches etcd");
        SCRIPT.iter().filter(|line| differs(line)).count()
    });
    assert_eq!(differing.await.unwrap(), 0, "commands that print something else");
}
