//! The quota of the program: history never makes a write fail, and objects that do not fit are refused until some are deleted.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::{Https, Launch};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A ConfigMap with 60 KB that do not compress to less than half.
fn map(name: &str, seed: usize) -> Value {
    let text: String =
        (0..10_000).map(|at| format!("{:06x}", (at + 1) * (seed + 7) * 2_654_435 % 0xff_ffff)).collect();
    json!({"metadata": {"name": name}, "data": {"k": text}})
}

#[tokio::test(flavor = "multi_thread")]
async fn history_makes_no_write_fail_and_objects_at_the_quota_are_refused_until_some_are_deleted() {
    for is_in_memory in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let launch = match is_in_memory {
            true => Launch::in_memory(SERVER, dir.path()),
            false => Launch::on_disk(SERVER, dir.path()),
        };
        let flags = ["--components", "apiserver", "--history", "all", "--quota-bytes", "4MiB"];
        let server = launch.args(&flags).start().unwrap();
        let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        let call = async |method: &str, path: &str, body: &Value| {
            let reply = https.call(method, &format!("{MAPS}{path}"), &body.to_string()).await;
            (reply.code, reply.json()["message"].as_str().unwrap_or_default().to_owned())
        };
        // Three times the quota, most of it history.
        assert_eq!(call("POST", "", &map("a", 0)).await.0, 201);
        for at in 1..200 {
            let (code, message) = call("PUT", "/a", &map("a", at)).await;
            assert_eq!(code, 200, "write {at}: {message}");
        }
        let mut written = 0;
        let refusal = loop {
            match call("POST", "", &map(&format!("m{written}"), written)).await {
                (201, _) if written < 100 => written += 1,
                refusal => break refusal,
            }
        };
        assert_eq!(refusal.0, 507, "{refusal:?}");
        assert!(refusal.1.contains("delete something, and writes go on by themselves"), "{refusal:?}");
        assert!(!refusal.1.contains("etcdctl"), "{refusal:?}");
        assert!(written > 30, "{written} objects of 60 KB fit");
        assert_eq!(call("PUT", "/a", &map("a", 3)).await.0, 200, "an update that adds nothing");
        assert_eq!(call("DELETE", "/m0", &json!({})).await.0, 200);
        assert_eq!(call("DELETE", "/m1", &json!({})).await.0, 200);
        assert_eq!(call("POST", "", &map("again", 5)).await.0, 201, "writes go on");
    }
}
