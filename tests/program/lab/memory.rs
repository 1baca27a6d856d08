//! Memory of forks that have ended.

use super::{lab, start};
use kstore_tests::Https;
use serde_json::{Value, json};

/// Forks before the first look: by then every thread of the allocator has its own memory.
const WARM: usize = 40;
/// Forks between the two looks.
const FORKS: usize = 160;
/// Growth between the looks that counts as noise. Forks that were kept grew by over 40 MiB.
const NOISE: usize = 12 << 20;

/// Starts and ends forks of the first cluster, one after the other.
async fn forks(https: &Https, count: usize) {
    for _ in 0..count {
        let fork = json!({"components": []});
        let (code, fork) = lab(https, "POST", "/clusters", &fork).await;
        assert_eq!(code, 201, "{fork}");
        let path = format!("/clusters/{}", fork["id"].as_str().unwrap());
        assert_eq!(lab(https, "DELETE", &path, &Value::Null).await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_that_have_ended_leave_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path(), &["--lab", "--lab-clock", "manual", "--nodes", "0"]);
    assert_eq!(lab(&https, "POST", "/settled", &json!({})).await.0, 200);
    forks(&https, WARM).await;
    let before = server.resident_bytes();
    forks(&https, FORKS).await;
    let after = server.resident_bytes();
    assert!(after < before + NOISE, "{} MiB grew to {} MiB", before >> 20, after >> 20);
}
