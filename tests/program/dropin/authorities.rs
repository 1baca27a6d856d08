//! Certificate authorities that change under a running apiserver.

use super::programs::{Authority, CertificatePair, Program, READY, assets, get, https, ready, words};
use kstore_tests::free_port;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The ConfigMap that extension API servers read.
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_authorities_follow_their_changed_file() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, shown) = (assets(dir.path()), dir.path().display());
    let (serving, first, second) = (Authority::new(), Authority::new(), Authority::new());
    serving.serving().write(dir.path(), "server");
    first.pair.write(dir.path(), "ca");
    let key = include_str!("../../../access/testdata/token-keys/rsa.pkcs1.pem");
    std::fs::write(dir.path().join("sa.key"), key).unwrap();
    let port = free_port();
    let apiserver = words(&format!(
        "--etcd-servers=unix://{shown}/etcd.sock --secure-port={port} --tls-cert-file={shown}/server.crt \
         --tls-private-key-file={shown}/server.key --client-ca-file={shown}/ca.crt \
         --service-account-signing-key-file={shown}/sa.key --service-account-issuer=https://localhost \
         --authorization-mode=RBAC --allow-privileged"
    ));
    let mut apiserver = Program::start(&folder.join("kube-apiserver"), &apiserver, dir.path());
    let etcd = words(&format!(
        "--data-dir {shown}/data --listen-client-urls unix://{shown}/etcd.sock \
         --advertise-client-urls unix://{shown}/etcd.sock --unsafe-no-fsync"
    ));
    let _etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
    let client = |pair: &CertificatePair| https(port, &serving.pair.certificate, pair);
    let [old, new] = [&first, &second].map(|authority| client(&authority.client("root", "system:masters")));
    ready(&old, "/readyz", "", &mut apiserver).await;
    let published = async |client| match get(client, PUBLISHED, "").await {
        Some(reply) if reply.code == 200 => {
            reply.json()["data"]["client-ca-file"].as_str().map(str::to_owned)
        }
        _ => None,
    };
    assert_eq!(published(&old).await.as_ref(), Some(&first.pair.certificate));
    let both = format!("{}{}", first.pair.certificate, second.pair.certificate);
    std::fs::write(dir.path().join("ca.crt"), &both).unwrap();
    let began = Instant::now();
    while published(&new).await.as_ref() != Some(&both) {
        apiserver.check();
        assert!(began.elapsed() < READY, "{}", apiserver.log());
        sleep(Duration::from_millis(20)).await;
    }
    // A broken file changes neither what is trusted nor what is published.
    std::fs::write(dir.path().join("ca.crt"), "no certificate").unwrap();
    assert_eq!(published(&old).await.as_ref(), Some(&both));
    assert_eq!(published(&new).await.as_ref(), Some(&both));
}
