//! The basis of a write against a client that notes itself what it was shown, in each form in which answers come.

use super::{CONFIG_MAPS, TestClient, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kstore_api::wire::protobuf;
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Names of the objects of a kind.
const NAMES: u64 = 6;
/// Actions of the client in each form.
const ACTIONS: usize = 50;

/// A client that notes the newest revision that each kind showed it.
struct NotingClient {
    name: String,
    client: TestClient,
    is_protobuf: bool,
    is_gzip: bool,
    shown: BTreeMap<&'static str, i64>,
    /// Kinds that it has begun to read.
    read: BTreeSet<&'static str>,
    /// The watch of ConfigMaps, and what of it was not read.
    watch: Option<(Incoming, Vec<u8>)>,
}

fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().map_or(0, |text| text.parse().unwrap())
}

impl NotingClient {
    fn of(admin: &TestClient, url: &str, agent: &str, accept: [&'static str; 2]) -> Self {
        Self {
            name: agent.to_owned(),
            client: admin.at(url, agent).accepting(accept),
            is_protobuf: accept[0].starts_with(PROTOBUF),
            is_gzip: accept[1] == "gzip",
            shown: BTreeMap::new(),
            read: BTreeSet::new(),
            watch: None,
        }
    }

    /// What it was shown of the kinds that it reads, as the lab shows it.
    fn views(&self) -> Value {
        let views = self.read.iter().map(|kind| {
            let delivered = self.shown.get(kind).copied().unwrap_or(0);
            json!({"resource": kind, "delivered": delivered})
        });
        views.collect()
    }

    /// An object of an answer, read by other code than the lab's.
    fn decoded(&self, bytes: &[u8]) -> Value {
        match self.is_protobuf {
            true => protobuf::decode(bytes).unwrap().1,
            false => serde_json::from_slice(bytes).unwrap(),
        }
    }

    /// Sends a request, and notes what its answer shows.
    async fn send(
        &mut self,
        method: Method,
        kind: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, i64) {
        if method == Method::GET {
            self.read.insert(kind);
        }
        let (code, body) = self.client.open(method, path, body, None).await;
        let mut bytes = body.collect().await.unwrap().to_bytes();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            assert!(self.is_gzip);
            let mut plain = Vec::new();
            MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
            bytes = Bytes::from(plain);
        }
        let object = if code < 300 { revision(&self.decoded(&bytes)) } else { 0 };
        let shown = self.shown.entry(kind).or_insert(0);
        *shown = object.max(*shown);
        (code, object)
    }

    /// Reads the watch up to the event at a revision.
    async fn read_to(&mut self, last: i64) {
        let Some((mut body, mut rest)) = self.watch.take() else { return };
        while self.shown["configmaps"] < last {
            rest.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
            while let Some((event, length)) = self.event(&rest) {
                self.shown.insert("configmaps", revision(&event).max(self.shown["configmaps"]));
                rest.drain(..length);
            }
        }
        self.watch = Some((body, rest));
    }

    /// Waits until the lab has noted what the client has read of its watch: it does so once the connection is done with an event.
    async fn until_noted(&self, admin: &TestClient) {
        let Some(shown) = self.shown.get("configmaps").filter(|_| self.watch.is_some()) else { return };
        let delivered = async || {
            let view = admin.lab(Method::GET, &format!("/clients/{}/view", self.name), None).await.body;
            view["kinds"]["configmaps"]["delivered"].as_i64().unwrap()
        };
        while delivered().await < *shown {}
    }

    /// The object of the first event, and the event's length.
    fn event(&self, bytes: &[u8]) -> Option<(Value, usize)> {
        if !self.is_protobuf {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            let event: Value = serde_json::from_slice(&bytes[..end]).unwrap();
            return Some((event["object"].clone(), end + 1));
        }
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
        let at = memchr::memmem::find(rest.get(..length)?, b"k8s\0").unwrap();
        Some((self.decoded(&rest[at..length]), length + 4))
    }
}

/// The watches that a client has open, as the lab sees them.
async fn watches(admin: &TestClient, name: &str) -> u64 {
    let clients = admin.lab(Method::GET, "/clients", None).await.body;
    let client = clients["clients"].as_array().unwrap().iter().find(|client| client["name"] == name);
    client.map_or(0, |client| client["watches"].as_u64().unwrap())
}

/// One action of the client or of another one. Returns the revision of the client's write, if it is one, and what the client had been
/// shown before.
async fn act(noting: &mut NotingClient, admin: &TestClient, rng: &Rng) -> Option<(i64, Value)> {
    let (kind, collection) =
        [("configmaps", CONFIG_MAPS), ("secrets", SECRETS)][usize::from(rng.below(3) == 0)];
    let name = format!("n{}", rng.below(NAMES));
    let path = format!("{collection}/{name}");
    let object = |client: &str| {
        let mut object = config_map(&name);
        if kind == "secrets" {
            object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        }
        object["metadata"]["labels"] = json!({"by": format!("{client}-{}", rng.next_u64())});
        // Lists of some of these are long enough to be compressed.
        object["metadata"]["annotations"] = json!({"long": "x".repeat(60_000)});
        object
    };
    match rng.below(9) {
        0 => {
            noting.send(Method::GET, kind, collection, None).await;
        }
        1 => {
            noting.send(Method::GET, kind, &format!("{collection}?limit=2"), None).await;
        }
        2 => {
            noting.send(Method::GET, kind, &path, None).await;
        }
        3 if noting.watch.is_some() => {
            noting.watch = None;
            // What the server still writes to the closed connection would count as delivered.
            while watches(admin, &noting.name).await > 0 {}
        }
        3 => {
            let (_, listed) = noting.send(Method::GET, "configmaps", CONFIG_MAPS, None).await;
            let watch = format!("{CONFIG_MAPS}?watch=true&resourceVersion={listed}");
            noting.watch = Some((noting.client.open(Method::GET, &watch, None, None).await.1, Vec::new()));
        }
        4 | 5 => {
            let (_, body) = match rng.below(4) {
                0 => admin.open(Method::DELETE, &path, None, None).await,
                _ => {
                    let (_, body) = admin.open(Method::POST, collection, Some(object("other")), None).await;
                    body.collect().await.unwrap();
                    admin.open(Method::PUT, &path, Some(object("other")), None).await
                }
            };
            body.collect().await.unwrap();
        }
        6 => {
            let (code, _) = noting.send(Method::DELETE, kind, &path, None).await;
            assert!([200, 404].contains(&code));
        }
        _ => {
            let before = noting.views();
            let (code, made) = noting.send(Method::POST, kind, collection, Some(object("own"))).await;
            let between = noting.views();
            let (_, changed) = noting.send(Method::PUT, kind, &path, Some(object("own"))).await;
            return Some(if code == 201 && rng.below(2) == 0 { (made, before) } else { (changed, between) });
        }
    }
    None
}

/// The newest revision at which a ConfigMap changed.
async fn newest(admin: &TestClient) -> i64 {
    let writes = admin.lab(Method::GET, "/writes?resource=configmaps", None).await.body;
    writes["writes"].as_array().unwrap().last().map_or(0, |write| write["revision"].as_i64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_basis_of_random_writes_is_what_their_client_was_shown_in_each_form() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let url = lab.cluster("main").unwrap().url.clone();
    let forms = [["", ""], ["", "gzip"], [PROTOBUF, ""], [PROTOBUF, "gzip"], [PARTIAL, ""]];
    let rng = Rng::seeded(16);
    let mut checked = 0;
    for (number, accept) in forms.into_iter().enumerate() {
        let agent = format!("noting-{number}");
        let mut noting = NotingClient::of(&admin, &url, &agent, accept);
        for _ in 0..ACTIONS {
            // What the client was shown when it writes: between its actions it reads its watch.
            noting.read_to(newest(&admin).await).await;
            noting.until_noted(&admin).await;
            let Some((written, expected)) = act(&mut noting, &admin, &rng).await else { continue };
            let write = admin.lab(Method::GET, &format!("/writes/{written}"), None).await.body;
            let log = admin.lab(Method::GET, &format!("/requests?client={agent}"), None).await.body;
            let log = log["requests"].as_array().unwrap().iter().rev().take(12).map(|row| {
                ["n", "verb", "resource", "name", "code", "objectVersion"]
                    .map(|name| row[name].to_string())
                    .join(" ")
            });
            let log: Vec<String> = log.collect();
            assert_eq!(write["basis"]["views"], expected, "{accept:?} at {written}: {log:#?}");
            checked += 1;
        }
    }
    assert!(checked > ACTIONS / 2, "{checked}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_protobuf_has_seen_what_it_listed() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("seen"))).await;
    let url = lab.cluster("main").unwrap().url.clone();
    let mut noting = NotingClient::of(&admin, &url, "kube-controller-manager", [PROTOBUF, "gzip"]);
    let (_, listed) = noting.send(Method::GET, "configmaps", CONFIG_MAPS, None).await;
    let unseen = admin.api(Method::POST, CONFIG_MAPS, Some(config_map("unseen"))).await.body;
    let (code, made) = noting.send(Method::POST, "configmaps", CONFIG_MAPS, Some(config_map("made"))).await;
    assert_eq!(code, 201);
    let write = admin.lab(Method::GET, &format!("/writes/{made}"), None).await.body;
    assert_eq!(write["basis"]["views"], json!([{"resource": "configmaps", "delivered": listed}]));
    let found: Vec<i64> = write["basis"]["unseen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["revision"].as_i64().unwrap())
        .collect();
    assert_eq!(found, [revision(&unseen)], "{write}");
    let log = admin.lab(Method::GET, "/requests?verb=create&client=kube-controller-manager", None).await.body;
    assert_eq!(log["requests"][0]["objectVersion"], made, "{log}");
    // YAML is not read: nothing is called unseen.
    let yaml = admin.at(&url, "yaml").accepting(["application/yaml", ""]);
    assert_eq!(yaml.api(Method::GET, CONFIG_MAPS, None).await.code, 200);
    let made = yaml.accepting(["", ""]).api(Method::POST, CONFIG_MAPS, Some(config_map("third"))).await.body;
    let write = admin.lab(Method::GET, &format!("/writes/{}", revision(&made)), None).await.body;
    assert_eq!(
        (&write["basis"]["views"][0]["partial"], &write["basis"]["unseen"]),
        (&json!(true), &json!([])),
        "{write}"
    );
    lab.end().await;
}
