//! Callers that an apiserver knows by a certificate or by a front proxy.

use super::DEFAULT;
use super::programs::{
    Authority, CertificatePair, Program, assets, etcd_ready, get, https, ready, self_signed_client, words,
};
use kstore_tests::free_port;

/// The flags are those of fabric8's kube-api-test: single-dash flags, separate words, every interface, PKCS#1 keys,
/// and the client's self-signed certificate as client CA.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_authenticates_by_a_listed_self_signed_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let folder = assets(dir.path());
    let files = dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let serving = CertificatePair {
        certificate: include_str!("../../../access/testdata/token-keys/rsa.crt.pem").into(),
        key: include_str!("../../../access/testdata/token-keys/rsa.pkcs1.pem").into(),
    };
    serving.write(&files, "apiserver");
    let client = self_signed_client("kubeapitest", "system:masters");
    client.write(&files, "client");
    let [etcd_port, peer_port, port] = [free_port(), free_port(), free_port()];
    let etcd = words(&format!(
        "-data-dir {0}/data -wal-dir {0}/wal --listen-client-urls http://0.0.0.0:{etcd_port} \
         --advertise-client-urls http://0.0.0.0:{etcd_port} --initial-cluster default=http://localhost:{peer_port} \
         --initial-advertise-peer-urls http://localhost:{peer_port} --listen-peer-urls http://localhost:{peer_port}",
        dir.path().display()
    ));
    let mut etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
    let apiserver = words(&format!(
        "--cert-dir {0} --secure-port {port} --etcd-servers http://0.0.0.0:{etcd_port} --authorization-mode RBAC \
         --service-account-issuer https://localhost --service-account-signing-key-file {0}/apiserver.key \
         --service-account-signing-key-file {0}/apiserver.key --service-account-key-file {0}/apiserver.key \
         --service-account-issuer {0}/apiserver.crt --disable-admission-plugins ServiceAccount \
         --client-ca-file {0}/client.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged",
        files.display()
    ));
    let mut apiserver = Program::start(&folder.join("kube-apiserver"), &apiserver, dir.path());
    etcd_ready(etcd_port, &mut etcd).await;
    let admin = https(port, &serving.certificate, &client);
    ready(&admin.without_certificate(), "/readyz", "", &mut apiserver).await;
    let namespace = admin.call("GET", DEFAULT, "").await;
    assert_eq!(namespace.code, 200, "{}", namespace.json());
    let other = https(port, &serving.certificate, &self_signed_client("kubeapitest", "system:masters"));
    let refused = get(&other, DEFAULT, "").await;
    assert!(refused.is_none_or(|reply| reply.code == 401), "another certificate of the same subject");
}

/// A front proxy, certified by a separate authority, names the user in headers. The flags are those of kwokctl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_front_proxy_names_the_user_of_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, shown) = (assets(dir.path()), dir.path().display());
    let (serving, users, proxies) = (Authority::new(), Authority::new(), Authority::new());
    serving.serving().write(dir.path(), "server");
    users.pair.write(dir.path(), "ca");
    proxies.pair.write(dir.path(), "front-proxy-ca");
    let front = proxies.client("kwok-ca", "");
    front.write(dir.path(), "front");
    let key = include_str!("../../../access/testdata/token-keys/rsa.pkcs1.pem");
    std::fs::write(dir.path().join("admin.key"), key).unwrap();
    let port = free_port();
    let args = words(&format!(
        "--etcd-prefix=/registry --allow-privileged=true --endpoint-reconciler-type=none --max-requests-inflight=0 \
         --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false --etcd-servers=unix://{shown}/etcd.sock \
         --bind-address=0.0.0.0 --secure-port={port} --tls-cert-file={shown}/server.crt \
         --tls-private-key-file={shown}/server.key --client-ca-file={shown}/ca.crt \
         --service-account-key-file={shown}/admin.key --service-account-signing-key-file={shown}/admin.key \
         --service-account-issuer=https://kubernetes.default.svc.cluster.local --proxy-client-key-file={shown}/front.key \
         --proxy-client-cert-file={shown}/front.crt --requestheader-client-ca-file={shown}/front-proxy-ca.crt \
         --requestheader-allowed-names=kwok-ca --requestheader-username-headers=X-Remote-User \
         --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
         --authorization-mode=Node,RBAC"
    ));
    let mut apiserver = Program::start(&folder.join("kube-apiserver"), &args, dir.path());
    let etcd = words(&format!(
        "--data-dir {shown}/data --listen-client-urls unix://{shown}/etcd.sock --advertise-client-urls unix://{shown}/etcd.sock \
         --unsafe-no-fsync"
    ));
    let _etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
    let client = |pair: &CertificatePair| https(port, &serving.pair.certificate, pair);
    ready(&client(&front).without_certificate(), "/healthz", "", &mut apiserver).await;
    let admin = "X-Remote-User: ann\r\nX-Remote-Group: system:masters\r\n";
    let code = async |pair: &CertificatePair, headers: &str| {
        get(&client(pair), DEFAULT, headers).await.unwrap().code
    };
    assert_eq!(code(&front, admin).await, 200);
    assert_eq!(code(&front, "X-Remote-User: ann\r\n").await, 403, "ann without her group");
    assert_eq!(code(&front, "").await, 401, "a proxy is no user");
    assert_eq!(code(&proxies.client("other", ""), admin).await, 401, "a proxy of another name");
    assert_eq!(code(&users.client("kwok-ca", ""), admin).await, 403, "a user, whatever the headers say");
    let anonymous = get(&client(&front).without_certificate(), DEFAULT, admin).await.unwrap();
    assert_eq!(anonymous.code, 403, "no certificate: {}", anonymous.json());
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map = get(&client(&users.client("root", "system:masters")), path, "").await.unwrap().json();
    assert_eq!(map["data"]["requestheader-client-ca-file"], proxies.pair.certificate.as_str());
    assert_eq!(map["data"]["requestheader-allowed-names"], r#"["kwok-ca"]"#);
}
