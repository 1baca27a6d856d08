//! Tests of stored values against independently made ones, and of the provider against a service that is slow,
//! is down, or lies about its key.

use super::super::live::Encryption;
use super::super::storage::EncryptedStorage;
use super::envelope::Envelope;
use super::write_key::{StatusStep, WriteKey, accept, judge_status};
use super::*;
use crate::encryption::key::Key;
use crate::storage::embedded::Embedded;
use crate::storage::{Commit, SharedStorage, Write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kstore_nondet::{Nondet, Rng};
use kstore_proto::kms::v2::key_management_service_server::{
    KeyManagementService, KeyManagementServiceServer,
};
use kstore_proto::kms::v2::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, EncryptedDekSourceType, StatusRequest,
    StatusResponse,
};
use kstore_store::{Config, Store};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status};

const KEY: &str = "/registry/secrets/ns/s";
const PLAIN: &[u8] = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"ns"}}"#;

/// Values of Python's `cryptography`: HKDF-Expand and AES-GCM of OpenSSL, the message written by hand.
#[test]
fn values_of_another_implementation_are_decrypted() {
    let seed = Key::new((0..32).collect());
    for (value, kind) in [
        (
            "CogByMnKy8zNzs/Q0dLT1NXW19jZ2tvc3d7f4OHi4+Tl5ucyMzQ1Njc4OTo7PD2nRE16qUA1Aq9FQ5jZbYdyv5b6xLBtVqZ0mIOTWAJTOaJlSddMbn4UQlMQUafW35nMGQ/e7assDGa0emeESsrDy/yalDqgU6khhlJ3G9bBNxNWmBjo0z+7/HajrhIFa2V5LTEaC3NlYWxlZC1zZWVkIhIKDWEuZXhhbXBsZS5jb20SAXgoAQ==",
            EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed,
        ),
        (
            "CmgyMzQ1Njc4OTo7PD29eYSpq1ij2U9Uj+UpiIvaSpF68eAbwpmic2T2lQm5BBIi5ml6hnPP9W0OvoZcmM+RlYqI8PZyRrh3kzwuSetSutW5mwRR3k2qcDJIIP5l5GYRRvAl3TK1zrLO+BIFa2V5LTEaC3NlYWxlZC1zZWVk",
            EncryptedDekSourceType::AesGcmKey,
        ),
    ] {
        let envelope = Envelope::decode(&STANDARD.decode(value).unwrap()).unwrap();
        assert_eq!((envelope.sealed.kind, envelope.sealed.key_id.as_str()), (kind, "key-1"));
        assert_eq!(envelope.sealed.source, "sealed-seed");
        assert_eq!(envelope.open(&seed, KEY.as_bytes()).unwrap(), PLAIN);
        let moved = envelope.open(&seed, b"/registry/secrets/ns/t").unwrap_err().to_string();
        assert_eq!(moved, "cipher: message authentication failed");
        assert!(envelope.open(&Key::new(vec![0; 7]), KEY.as_bytes()).is_err());
    }
}

fn sealed(key_id: &str) -> SealedSeed {
    SealedSeed {
        key_id: key_id.into(),
        source: "x".into(),
        annotations: [("a.example.com".to_owned(), Bytes::from("y"))].into(),
        kind: EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed,
    }
}

#[test]
fn stored_values_round_trip_and_broken_ones_are_refused() {
    let (seed, rng) = (Key::new(vec![7; 32]), Rng::seeded(1));
    let stored = sealed("k").seal(&seed, PLAIN, KEY.as_bytes(), &rng);
    let envelope = Envelope::decode(&stored).unwrap();
    assert_eq!(envelope.sealed, sealed("k"));
    assert_eq!(envelope.open(&seed, KEY.as_bytes()).unwrap(), PLAIN);
    for cut in 0..stored.len() {
        let opened = Envelope::decode(&stored[..cut]).and_then(|cut| cut.open(&seed, KEY.as_bytes()));
        assert!(opened.is_err(), "{cut} bytes");
    }
    type Change = fn(&mut SealedSeed);
    let changes: [(&str, Change); 6] = [
        ("encrypted DEK source is empty", |sealed| sealed.source = Bytes::new()),
        ("encrypted DEK source is 1025 bytes", |sealed| sealed.source = vec![0; 1025].into()),
        ("keyID is empty", |sealed| sealed.key_id.clear()),
        ("keyID is 1025 bytes", |sealed| sealed.key_id = "k".repeat(1025)),
        ("should be a domain with at least two segments", |sealed| {
            sealed.annotations.insert("name".into(), Bytes::new());
        }),
        ("which exceeds the max size of 32768", |sealed| {
            sealed.annotations.insert("b.example.com".into(), vec![0; 32768].into());
        }),
    ];
    for (want, change) in changes {
        let mut broken = sealed("k");
        change(&mut broken);
        let stored = broken.seal(&seed, PLAIN, KEY.as_bytes(), &rng);
        let error = Envelope::decode(&stored).unwrap_err().to_string();
        assert!(error.starts_with("failed to validate ") && error.contains(want), "{error}");
    }
}

#[tokio::test]
async fn a_status_keeps_or_replaces_the_seed_and_says_what_is_wrong() {
    let current = WriteKey { seed: Key::new(vec![1]), sealed: sealed("k1"), expires: Instant::now() };
    let status = |healthz: &str, version: &str, key_id: &str| StatusResponse {
        healthz: healthz.into(),
        version: version.into(),
        key_id: key_id.into(),
    };
    for (given, known, step, wrong) in [
        (status("ok", "v2", "k1"), "", Some(StatusStep::Extend), None),
        (status("ok", "v2beta1", "k2"), "", Some(StatusStep::Replace), None),
        (
            status("sick", "v2", "k2"),
            "v2",
            Some(StatusStep::Replace),
            Some("got unexpected healthz status: sick"),
        ),
        (
            status("ok", "v1", "k1"),
            "v2",
            Some(StatusStep::Extend),
            Some("expected KMSv2 API version v2, got v1"),
        ),
        (
            status("ok", "v2beta1", "k1"),
            "v2",
            Some(StatusStep::Extend),
            Some("should not change after the initial"),
        ),
        (status("ok", "v2", ""), "v2", None, Some("keyID is empty")),
    ] {
        let mut version = known.to_owned();
        let (found, errors) = judge_status(&given, &mut version, Some(&current));
        assert_eq!(found, step, "{given:?}");
        assert_eq!(errors.is_empty(), wrong.is_none(), "{errors:?}");
        assert!(errors.iter().all(|error| error.contains(wrong.unwrap_or_default())), "{errors:?}");
    }
    let first = judge_status(&status("ok", "v2", "k1"), &mut String::new(), None);
    assert_eq!(first, (Some(StatusStep::Replace), vec![]));
    let answer = EncryptResponse { ciphertext: "c".into(), key_id: "k2".into(), ..Default::default() };
    let refused = accept(Key::new(vec![1]), answer, "k1", Instant::now()).unwrap_err();
    assert!(refused.starts_with("statusKeyIDHash=\"sha256:"), "{refused}");
}

/// The service under test: encrypts by inverting bits, and does what its state says.
#[derive(Clone, Debug)]
struct Plugin {
    status_key: String,
    encrypt_key: String,
    delay: Duration,
    refuses: bool,
    /// Calls of Encrypt and Decrypt.
    calls: (u32, u32),
}

#[derive(Clone)]
struct PluginService(Arc<Mutex<Plugin>>);

impl PluginService {
    async fn begin(&self) -> Result<Plugin, Status> {
        let plugin = self.0.lock().clone();
        tokio::time::sleep(plugin.delay).await;
        if plugin.refuses { Err(Status::internal("the key store is away")) } else { Ok(plugin) }
    }
}

fn inverted(bytes: &[u8]) -> Bytes {
    bytes.iter().map(|byte| !byte).collect()
}

#[async_trait::async_trait]
impl KeyManagementService for PluginService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let key_id = self.begin().await?.status_key;
        Ok(Response::new(StatusResponse { version: "v2".into(), healthz: "ok".into(), key_id }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        self.0.lock().calls.0 += 1;
        let key_id = self.begin().await?.encrypt_key;
        let annotations = [("version.example.com".to_owned(), Bytes::from("1"))].into();
        let ciphertext = inverted(&request.into_inner().plaintext);
        Ok(Response::new(EncryptResponse { ciphertext, key_id, annotations }))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        self.0.lock().calls.1 += 1;
        self.begin().await?;
        let request = request.into_inner();
        if request.annotations.len() != 1 || request.uid.is_empty() || !request.key_id.starts_with('k') {
            return Err(Status::invalid_argument("not what Encrypt answered"));
        }
        Ok(Response::new(DecryptResponse { plaintext: inverted(&request.ciphertext) }))
    }
}

fn serve(socket: &Path, plugin: Arc<Mutex<Plugin>>) -> AbortOnDropHandle<()> {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let incoming = async_stream::stream! {
        loop {
            yield listener.accept().await.map(|(connection, _)| connection);
        }
    };
    let server = tonic::transport::Server::builder()
        .add_service(KeyManagementServiceServer::new(PluginService(plugin)))
        .serve_with_incoming(incoming);
    AbortOnDropHandle::new(tokio::spawn(async move { server.await.unwrap() }))
}

/// A storage whose secrets a service protects.
struct Cluster {
    plugin: Arc<Mutex<Plugin>>,
    serving: Option<AbortOnDropHandle<()>>,
    store: Store,
    config: PathBuf,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Cluster {
    async fn new() -> Self {
        Self::with_timeout("180s").await
    }

    /// A cluster whose calls to the service have this timeout, in Go's form.
    async fn with_timeout(timeout: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (socket, config) = (dir.path().join("kms.sock"), dir.path().join("config.yaml"));
        let text = format!(
            "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{{resources: [secrets], providers: [{{kms: {{apiVersion: v2, name: outside, timeout: {timeout}, endpoint: 'unix://{}'}}}}]}}]}}",
            socket.display()
        );
        std::fs::write(&config, text).unwrap();
        let plugin = Plugin {
            status_key: "k1".into(),
            encrypt_key: "k1".into(),
            delay: Duration::ZERO,
            refuses: false,
            calls: (0, 0),
        };
        let plugin = Arc::new(Mutex::new(plugin));
        let serving = Some(serve(&socket, plugin.clone()));
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        Self { plugin, serving, store, config, socket, _dir: dir }
    }

    /// A server that starts now, with its own seed.
    async fn server(&self) -> (Arc<Encryption>, SharedStorage) {
        let encryption = Arc::new(Encryption::open(&self.config, "/registry", Rng::from_os()).unwrap());
        encryption.begin().await;
        let storage = Arc::new(Embedded::new(self.store.clone()));
        (encryption.clone(), Arc::new(EncryptedStorage::new(storage, encryption)))
    }

    fn set(&self, change: impl Fn(&mut Plugin)) {
        change(&mut self.plugin.lock());
    }
}

async fn put(storage: &SharedStorage) -> Result<(), String> {
    let writes = vec![Write::Put { key: KEY.into(), value: PLAIN.into(), ttl_seconds: 0 }];
    let commit = Commit { guards: Vec::new(), writes, note: Bytes::new() };
    storage.commit(commit).await.map(drop).map_err(|error| error.to_string())
}

async fn get(storage: &SharedStorage) -> Result<Bytes, String> {
    let raw = storage.get(KEY, 0).await.unwrap().unwrap();
    match raw.undecrypted {
        None => Ok(raw.value),
        Some(reason) => Err(reason.to_string()),
    }
}

async fn check(encryption: &Encryption) -> Option<String> {
    let transformers = encryption.transformers();
    let kms = &transformers.services()[0];
    kms.check().await;
    kms.last_error()
}

#[tokio::test]
async fn one_call_makes_the_seed_of_all_writes_and_one_reads_all_values_of_another_server() {
    let cluster = Cluster::new().await;
    let (encryption, storage) = cluster.server().await;
    assert_eq!(encryption.has_healthy_keys(), Some(true));
    for _ in 0..3 {
        put(&storage).await.unwrap();
        assert_eq!(get(&storage).await.unwrap(), PLAIN);
    }
    assert_eq!(cluster.plugin.lock().calls, (1, 0));
    let stored = cluster.store.get(KEY).unwrap().unwrap();
    assert!(stored.value().starts_with(b"k8s:enc:kms:v2:outside:"));
    assert!(!storage.is_stale(KEY).await.unwrap());
    let (_, other) = cluster.server().await;
    for _ in 0..3 {
        assert_eq!(get(&other).await.unwrap(), PLAIN);
    }
    assert_eq!(cluster.plugin.lock().calls, (2, 1));
}

#[tokio::test]
async fn a_rotated_key_makes_values_stale_and_a_lie_about_it_changes_nothing() {
    let cluster = Cluster::new().await;
    let (encryption, storage) = cluster.server().await;
    put(&storage).await.unwrap();
    cluster.set(|plugin| plugin.status_key = "k2".into());
    let lie = check(&encryption).await.unwrap();
    assert!(lie.contains("failed to rotate DEK: statusKeyIDHash="), "{lie}");
    assert_eq!(encryption.has_healthy_keys(), Some(false));
    assert!(!storage.is_stale(KEY).await.unwrap());
    put(&storage).await.unwrap();
    cluster.set(|plugin| plugin.encrypt_key = "k2".into());
    assert_eq!(check(&encryption).await, None);
    assert!(storage.is_stale(KEY).await.unwrap());
    assert_eq!(get(&storage).await.unwrap(), PLAIN, "the earlier seed still reads");
    put(&storage).await.unwrap();
    assert!(!storage.is_stale(KEY).await.unwrap());
}

#[tokio::test]
async fn a_service_that_is_down_or_slow_keeps_known_seeds_usable_and_others_unreadable() {
    // Far above the time of a call on a busy machine; the delay is far above that.
    let mut cluster = Cluster::with_timeout("5s").await;
    let (encryption, storage) = cluster.server().await;
    put(&storage).await.unwrap();
    cluster.set(|plugin| plugin.delay = Duration::from_secs(600));
    let slow = check(&encryption).await.unwrap();
    assert!(slow.contains("failed to perform status section") && slow.contains("DeadlineExceeded"), "{slow}");
    put(&storage).await.unwrap();
    assert_eq!(get(&storage).await.unwrap(), PLAIN);

    cluster.serving = None;
    let (fresh, other) = cluster.server().await;
    assert_eq!(fresh.has_healthy_keys(), Some(false));
    assert_eq!(put(&other).await.unwrap_err(), "storage: got unexpected nil transformer");
    let unread = get(&other).await.unwrap_err();
    assert!(unread.starts_with("failed to decrypt DEK, error: rpc error: code = "), "{unread}");

    cluster.set(|plugin| plugin.delay = Duration::ZERO);
    cluster.serving = Some(serve(&cluster.socket, cluster.plugin.clone()));
    tokio::time::sleep(crate::limits::KMS_RETRY).await;
    assert_eq!(check(&fresh).await, None);
    put(&other).await.unwrap();
    assert_eq!(get(&storage).await.unwrap(), PLAIN);
}

#[tokio::test]
async fn a_refusal_of_the_service_is_the_error_of_the_value() {
    let cluster = Cluster::new().await;
    put(&cluster.server().await.1).await.unwrap();
    let (encryption, other) = cluster.server().await;
    cluster.set(|plugin| plugin.refuses = true);
    assert_eq!(
        get(&other).await.unwrap_err(),
        "failed to decrypt DEK, error: rpc error: code = Internal desc = the key store is away"
    );
    cluster.set(|plugin| plugin.refuses = false);
    let transformers = encryption.transformers();
    assert!(transformers.services()[0].check().await, "lost values are read again after a right check");
    assert!(!transformers.services()[0].check().await);
    assert_eq!(get(&other).await.unwrap(), PLAIN);
}
