//! Encryption at rest in the program: stored bytes as an etcd client reads them, rotation, restarts, and the
//! absence of plaintext on disk.

use crate::SERVER;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use kstore_client::{Client, DeleteParams, Gvr, ListParams};
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::{CompactionRequest, PutRequest, RangeRequest};
use kstore_tests::{Launch, Server, manifests};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// Stands for what must not be stored.
const NEEDLE: &str = "correct-horse-battery-staple";
/// The same in an object that is not encrypted: the search finds it.
const CONTROL: &str = "this-is-no-secret";

/// 32 bytes, as text.
fn key(byte: u8) -> String {
    STANDARD.encode([byte; 32])
}

/// A provider with the keys a, b, …, in this order.
fn provider(cipher: &str, names: &str) -> Value {
    let keys = names.bytes().map(|name| json!({"name": char::from(name).to_string(), "secret": key(name)}));
    json!({cipher: {"keys": keys.collect::<Vec<_>>()}})
}

struct Cluster {
    dir: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("encryption.json")
    }

    /// Starts the server on the data directory with these providers of Secrets.
    fn start(&self, providers: &[Value]) -> Server {
        let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}]});
        fs::write(self.config(), config.to_string()).unwrap();
        let flag = format!("--encryption-provider-config={}", self.config().display());
        self.launch().args(&[&flag]).start().unwrap()
    }

    fn launch(&self) -> Launch {
        let etcd = format!("unix://{}", self.socket().display());
        Launch::on_disk(SERVER, self.dir.path()).args(&["--components", "apiserver", "--etcd-listen", &etcd])
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("etcd.sock")
    }

    async fn etcd(&self) -> KvClient<Channel> {
        let path = self.socket();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        KvClient::new(endpoint.connect_with_connector(connect).await.unwrap())
    }

    /// The stored bytes of a Secret, and the revision that wrote them.
    async fn stored(&self, name: &str) -> (Vec<u8>, i64) {
        let request = RangeRequest { key: storage_key(name).into(), ..Default::default() };
        let answer = self.etcd().await.range(request).await.unwrap().into_inner();
        (answer.kvs[0].value.to_vec(), answer.kvs[0].mod_revision)
    }

    /// The files below the data directory and any others given that contain a text.
    fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.dir.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() && contains(&entry.path(), text) {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

fn contains(path: &Path, text: &str) -> bool {
    let (bytes, encoded) = (fs::read(path).unwrap(), STANDARD.encode(text));
    // The texts are ASCII, which the conversion keeps; the search in a string is optimised in every profile.
    let content = String::from_utf8_lossy(&bytes);
    content.contains(text) || content.contains(&encoded)
}

fn storage_key(name: &str) -> String {
    format!("/registry/secrets/default/{name}")
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "stringData": {"password": NEEDLE}})
}

async fn create(client: &Client, name: &str) {
    client.dynamic(Gvr::of::<Secret>()).create("default", &secret(name)).await.unwrap();
}

async fn password(client: &Client, name: &str) -> Result<String, String> {
    let found = client.dynamic(Gvr::of::<Secret>()).get("default", name).await;
    let found = found.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(STANDARD.decode(found["data"]["password"].as_str().unwrap()).unwrap()).unwrap())
}

/// Stores all Secrets again as they are, as `kubectl get secrets -o json | kubectl replace -f -`.
async fn rewrite_all(client: &Client) {
    let secrets = client.dynamic(Gvr::of::<Secret>());
    for mut object in secrets.list("default", &ListParams::default()).await.unwrap().0 {
        (object["apiVersion"], object["kind"]) = ("v1".into(), "Secret".into());
        secrets.update(&object).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_provider_stores_its_form_and_a_later_configuration_reads_all_of_them() {
    let cluster = Cluster::new();
    let ciphers = ["aescbc", "aesgcm", "secretbox"];
    for (index, cipher) in ciphers.iter().enumerate() {
        let mut providers = vec![provider(cipher, "a")];
        providers.extend(ciphers[..index].iter().map(|earlier| provider(earlier, "a")));
        let server = cluster.start(&providers);
        create(&server.client("test").await, cipher).await;
        let (stored, _) = cluster.stored(cipher).await;
        assert!(stored.starts_with(format!("k8s:enc:{cipher}:v1:a:").as_bytes()), "{cipher}");
        assert!(server.terminate().success());
    }
    let all: Vec<_> = ciphers.iter().map(|cipher| provider(cipher, "a")).collect();
    let server = cluster.start(&all);
    let client = server.client("test").await;
    for cipher in ciphers {
        assert_eq!(password(&client, cipher).await.unwrap(), NEEDLE, "{cipher}");
    }

    // A value that OpenSSL encrypted, as a kube-apiserver with the same file would have stored it.
    let made = "MjM0NTY3ODk6Ozw9vXmEqatYo9lPVI/lKYiL2kqRevHgG8KZonNk9pUJuQQSIuZpeoZzz/VtDr6GXJjPkZWKiPD2cka4d5M8LknrUrrVuZsEUd5NqnAySCD+ZeRmEUbwJd0ytc6yzvg=";
    assert!(server.terminate().success());
    let foreign: Vec<u8> = (0..32).collect();
    let keys = json!({"aesgcm": {"keys": [{"name": "k", "secret": STANDARD.encode(foreign)}]}});
    let server = cluster.start(&[&[keys], &all[..]].concat());
    let value = [b"k8s:enc:aesgcm:v1:k:".to_vec(), STANDARD.decode(made).unwrap()].concat();
    let put = PutRequest { key: "/registry/secrets/ns/s".into(), value: value.into(), ..Default::default() };
    cluster.etcd().await.put(put).await.unwrap();
    let found = server.client("test").await.dynamic(Gvr::of::<Secret>()).get("ns", "s").await.unwrap();
    assert_eq!(found["metadata"]["name"], "s");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_rotated_in_four_steps_and_then_the_old_one_is_not_needed() {
    let cluster = Cluster::new();
    let names = ["s1", "s2", "s3"];
    // Before there was encryption.
    let server = cluster.launch().start().unwrap();
    create(&server.client("test").await, "s1").await;
    assert!(server.terminate().success());
    let identity = json!({"identity": {}});
    let server = cluster.start(&[provider("secretbox", "a"), identity.clone()]);
    let client = server.client("test").await;
    create(&client, "s2").await;
    rewrite_all(&client).await;
    assert!(server.terminate().success());

    let server = cluster.start(&[provider("secretbox", "ab"), identity.clone()]);
    create(&server.client("test").await, "s3").await;
    let (_, before) = cluster.stored("s3").await;
    rewrite_all(&server.client("test").await).await;
    assert_eq!(cluster.stored("s3").await.1, before, "nothing is stale, so nothing is written");
    assert!(server.terminate().success());
    let server = cluster.start(&[provider("secretbox", "ba"), identity]);
    rewrite_all(&server.client("test").await).await;
    for name in names {
        let (stored, _) = cluster.stored(name).await;
        assert!(stored.starts_with(b"k8s:enc:secretbox:v1:b:"), "{name}");
    }
    assert!(server.terminate().success());
    let server = cluster.start(&[provider("secretbox", "b")]);
    for name in names {
        assert_eq!(password(&server.client("test").await, name).await.unwrap(), NEEDLE, "{name}");
    }
    assert!(server.terminate().success());

    // The wrong key, and none.
    let server = cluster.start(&[provider("secretbox", "c")]);
    let client = server.client("test").await;
    let error = password(&client, "s1").await.unwrap_err();
    assert!(error.contains("no matching key was found for the provided Secretbox transformer"), "{error}");
    let listed = client.dynamic(Gvr::of::<Secret>()).list("default", &ListParams::default()).await;
    let error = listed.err().unwrap().to_string();
    let cause =
        "failed to read one or more secrets from the storage: data from the storage is not transformable";
    assert!(error.contains(cause) && error.contains("(and 2 more)"), "{error}");
    assert!(
        client.dynamic(Gvr::of::<Secret>()).delete("default", "s1", &DeleteParams::default()).await.is_err()
    );
    assert!(server.terminate().success());
    let server = cluster.launch().start().unwrap();
    let error = password(&server.client("test").await, "s1").await.unwrap_err();
    assert!(error.contains("identity transformer tried to read encrypted data"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_has_the_plaintext_of_an_encrypted_object() {
    let cluster = Cluster::new();
    let providers = [provider("aesgcm", "a")];
    let server = cluster.start(&providers);
    let client = server.client("test").await;
    let secrets = client.dynamic(Gvr::of::<Secret>());
    for n in 0..20 {
        create(&client, &format!("s{n}")).await;
    }
    let map = manifests::config_map("control", CONTROL);
    client.dynamic(Gvr::of::<k8s_openapi::api::core::v1::ConfigMap>()).create("default", &map).await.unwrap();
    let mut changed = secrets.get("default", "s1").await.unwrap();
    changed["metadata"]["labels"] = json!({"a": "b"});
    secrets.update(&changed).await.unwrap();
    secrets.delete("default", "s2", &DeleteParams::default()).await.unwrap();
    let (_, revision) = cluster.stored("s1").await;
    let compact = CompactionRequest { revision, physical: true };
    cluster.etcd().await.compact(compact).await.unwrap();
    assert!(!cluster.files_with(CONTROL).is_empty(), "the search finds what is stored in plain text");
    assert_eq!(cluster.files_with(NEEDLE), Vec::<PathBuf>::new());

    server.kill();
    let server = cluster.start(&providers);
    assert_eq!(password(&server.client("test").await, "s1").await.unwrap(), NEEDLE);
    assert!(server.terminate().success());
    let data = cluster.dir.path().join("data").display().to_string();
    let snapshot = cluster.dir.path().join("snapshot.db").display().to_string();
    let saved =
        Command::new(SERVER).args(["store", "snapshot", "save", &snapshot, "--data-dir", &data]).output();
    let saved = saved.unwrap();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    assert!(cluster.files_with(CONTROL).iter().any(|file| file.ends_with("snapshot.db")));
    assert_eq!(cluster.files_with(NEEDLE), Vec::<PathBuf>::new());
}

#[test]
fn an_invalid_configuration_ends_the_start_with_the_reason_and_no_key() {
    let cluster = Cluster::new();
    let flag = format!("--encryption-provider-config={}", cluster.config().display());
    let refusal = cluster.launch().args(&[&flag]).start().err().unwrap();
    assert!(refusal.contains("error reading encryption provider configuration file"), "{refusal}");
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": [{"name": "a", "secret": "c2hvcnQ="}]}}]}]});
    fs::write(cluster.config(), config.to_string()).unwrap();
    let refusal = cluster.launch().args(&[&flag]).start().err().unwrap();
    let want = "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 5, expected one of [32]";
    assert!(refusal.contains(want) && !refusal.contains("c2hvcnQ="), "{refusal}");
}
