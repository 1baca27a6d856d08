//! Tests of etcd's command lines: those of test harnesses, and those that the program refuses.

use super::*;

fn read(line: &str) -> Result<Config, UsageError> {
    let parsed = TABLE.parse(line.split_whitespace().map(str::to_owned))?;
    parsed.check()?;
    config(&parsed)
}

fn store(line: &str) -> (Storage, EtcdListen, Quota, History) {
    match read(line).unwrap().api {
        Api::Store(store) => (store.storage, store.etcd, store.quota, store.history),
        other => panic!("no store alone: {other:?}"),
    }
}

#[test]
fn envtest_flags_start_a_store_without_fsync() {
    let (storage, etcd, quota, history) = store(
        "--advertise-client-urls=http://127.0.0.1:7 --data-dir=/d --listen-client-urls=http://127.0.0.1:7 \
         --listen-peer-urls=http://127.0.0.1:8 --unsafe-no-fsync=true",
    );
    let (durability, engine) = (Durability::Relaxed, Engine::Segments);
    assert_eq!(storage, Storage::Disk { dir: "/d".into(), durability, engine, salvage: false });
    assert_eq!(etcd.listen, EtcdAddress::Tcp("127.0.0.1:7".parse().unwrap()));
    assert_eq!(
        (etcd.advertise.as_deref(), etcd.name.as_deref()),
        (Some("http://127.0.0.1:7"), Some("default"))
    );
    assert_eq!((etcd.allow_anyone, etcd.tls, quota, history), (true, None, Quota::Default, History::All));
}

#[test]
fn flags_with_one_dash_and_separate_values_are_accepted() {
    let (_, etcd, ..) = store(
        "-data-dir T -wal-dir T2 --listen-client-urls http://0.0.0.0:7 --advertise-client-urls http://0.0.0.0:7 \
         --initial-cluster default=http://localhost:8 --initial-advertise-peer-urls http://localhost:8",
    );
    assert_eq!(etcd.listen, EtcdAddress::Tcp("0.0.0.0:7".parse().unwrap()));
    let (storage, etcd, quota, history) = store(
        "--data-dir D --listen-client-urls unix:///D/etcd.sock --quota-backend-bytes 8589934592 -log-level warn \
         --auto-compaction-retention=1 --name=node0",
    );
    assert_eq!(etcd.listen, EtcdAddress::Unix("/D/etcd.sock".into()));
    assert!(matches!(storage, Storage::Disk { durability: Durability::Sync, .. }), "{storage:?}");
    assert_eq!((quota, history), (Quota::Bytes(8_589_934_592), History::For(Duration::from_secs(3600))));
}

#[test]
fn https_requires_certificate_and_key_files() {
    let base = "--listen-client-urls https://127.0.0.1:7 --cert-file c --key-file k";
    let files = |clients: Option<&str>| {
        Some(EtcdTls { certificate: "c".into(), key: "k".into(), clients: clients.map(PathBuf::from) })
    };
    assert_eq!(store(base).1.tls, files(None));
    assert_eq!(store(&format!("{base} --client-cert-auth --trusted-ca-file a")).1.tls, files(Some("a")));
    for (line, expected) in [
        ("--listen-client-urls https://127.0.0.1:7", "--cert-file is required"),
        (&format!("{base} --client-cert-auth"), "--trusted-ca-file is required"),
    ] {
        let refused = read(line).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{line}: {refused}");
    }
}

#[test]
fn unsupported_cluster_settings_are_refused_with_the_reason() {
    let listen = "--listen-client-urls http://127.0.0.1:7";
    for (flags, expected) in [
        ("", "--listen-client-urls is required: kstore opens no default port"),
        ("--listen-client-urls http://a:1,http://b:2", "kstore's etcd listens at one URL"),
        ("--listen-client-urls ftp://a:1", "expected http://HOST:PORT"),
        (&format!("{listen} --initial-cluster a=http://a:1,b=http://b:1"), "a cluster of one member"),
        (&format!("{listen} --initial-cluster-state existing"), "a new cluster of one member"),
        (&format!("{listen} --max-txn-ops 1000"), "etcd's default bound"),
        (&format!("{listen} --config-file f"), "flags and ETCD_ variables only"),
        (
            &format!("{listen} --auto-compaction-mode daily --auto-compaction-retention 1"),
            "periodic or revision",
        ),
        (&format!("{listen} --quota-backend-bytes many"), "expected a number of bytes"),
    ] {
        let refused = read(flags).unwrap_err().to_string();
        assert!(refused.contains(expected), "{flags}: {refused}");
    }
}

#[test]
fn retention_is_hours_a_duration_or_revisions() {
    let kept = |flags: &str| store(&format!("--listen-client-urls http://127.0.0.1:7 {flags}")).3;
    assert_eq!(kept("--auto-compaction-retention 5m"), History::For(Duration::from_secs(300)));
    assert_eq!(kept("--auto-compaction-retention 0"), History::All);
    let mode = "--auto-compaction-mode revision --auto-compaction-retention";
    assert_eq!(kept(&format!("{mode} 1000")), History::Revisions(1000));
}

/// Harnesses find the version by `(kubernetes|version)?:? ?v?(\d+\.\d+\.\d+(-\S*)?)`, and a flag by a line that begins with it.
#[test]
fn version_and_help_have_the_form_that_harnesses_parse() {
    assert!(version().starts_with("etcd Version: 3.6.0\n"), "{}", version());
    assert!(help().lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync ")), "{}", help());
}
