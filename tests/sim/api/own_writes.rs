//! Read-your-writes clients: the answer of each write of each kind carries the revision of its own event, a decimal that ascends, and no
//! two objects of a kind share a revision.

use kstore_api::resource::Resource;
use kstore_api::version::Minor;
use kstore_tests::{Cluster, Reply, Setup, manifests, simulate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Complete objects of each kind, as `.ci/compare` sends them.
pub(super) const OBJECTS: [&str; 7] = [
    include_str!("../../../.ci/comparison/objects/access.json"),
    include_str!("../../../.ci/comparison/objects/admission.json"),
    include_str!("../../../.ci/comparison/objects/core.json"),
    include_str!("../../../.ci/comparison/objects/network.json"),
    include_str!("../../../.ci/comparison/objects/pods.json"),
    include_str!("../../../.ci/comparison/objects/storage.json"),
    include_str!("../../../.ci/comparison/objects/workloads.json"),
];

/// The writes of one object and the revisions of their answers.
struct Writes<'c> {
    cluster: &'c Cluster,
    base: String,
    name: String,
    /// The newest revision before the writes.
    start: String,
    answers: Vec<(String, i64)>,
    refused: Vec<String>,
}

impl<'c> Writes<'c> {
    async fn begin(cluster: &'c Cluster, base: &str, name: &str) -> Self {
        let listed = cluster.rest().call("GET", base, "").await;
        let start = listed.text("/metadata/resourceVersion");
        let (base, name) = (base.to_owned(), name.to_owned());
        Self { cluster, base, name, start, answers: Vec::new(), refused: Vec::new() }
    }

    /// Sends a write to the object, or to what is below it, and keeps the revision of its answer.
    async fn send(&mut self, method: &str, below: &str, content: &str, body: &Value) -> Reply {
        let path = match method {
            "POST" if below.is_empty() => self.base.clone(),
            _ => format!("{}/{}{below}", self.base, self.name),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.cluster.rest().call_as(method, &path, content, body).await;
        let what = format!("{method} {below} {content}");
        match reply.code {
            200..=202 => {
                let version = reply.text("/metadata/resourceVersion");
                let revision = version
                    .parse()
                    .unwrap_or_else(|_| panic!("{path} {what}: {version:?}: {}", reply.json()));
                assert!(!version.starts_with('0'), "{what}: {version}");
                self.answers.push((what, revision));
            }
            code => self.refused.push(format!("{what}: {code} {}", reply.text("/message"))),
        }
        reply
    }

    /// The type and revision of each event of the kind since the begin; of each one of this object, if `own`.
    async fn events(&self, own: bool) -> Vec<(String, i64)> {
        let path = format!("{}?watch=1&timeoutSeconds=1&resourceVersion={}", self.base, self.start);
        let reply = self.cluster.rest().call("GET", &path, "").await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event is JSON"));
        let events = events.filter(|event| !own || event["object"]["metadata"]["name"] == self.name.as_str());
        let shown = |event: Value| {
            let version = event["object"]["metadata"]["resourceVersion"].as_str().expect("a revision");
            (event["type"].as_str().expect("a type").to_owned(), version.parse().expect("a decimal"))
        };
        events.map(shown).collect()
    }

    /// Checks the answers against the events.
    async fn check(self) {
        let about = format!("{}/{}", self.base, self.name);
        let all = self.events(false).await;
        for pair in all.windows(2) {
            assert!(pair[0].1 < pair[1].1, "{about}: two events of a kind at one revision: {all:?}");
        }
        let own = self.events(true).await;
        let seen: BTreeSet<i64> = own.iter().map(|(_, revision)| *revision).collect();
        let mut last = 0;
        for (what, revision) in &self.answers {
            assert!(seen.contains(revision), "{about}: {what} answered {revision}: {own:?}");
            assert!(*revision >= last, "{about}: {what} answered {revision} after {last}");
            last = *revision;
        }
        let (kind, revision) = own.last().unwrap_or_else(|| panic!("{about}: no events; {:?}", self.refused));
        // The server removes the last finalizer of a definition itself, once the objects of its kind are gone.
        let is_later = *revision > last && self.base.ends_with("/customresourcedefinitions");
        let is_last = is_later || *revision == last;
        assert!(kind == "DELETED" && is_last, "{about}: {own:?} {:?}", self.answers);
    }
}

/// The path of a kind's collection, in the namespace `default`.
pub(super) fn base(row: &Resource) -> String {
    let group = if row.group.is_empty() {
        format!("/api/{}", row.version)
    } else {
        format!("/apis/{}/{}", row.group, row.version)
    };
    let namespace = if row.namespaced { "/namespaces/default" } else { "" };
    format!("{group}{namespace}/{}", row.plural)
}

/// Every way to write one object. Returns the number of writes that were accepted.
async fn write(cluster: &Cluster, row: &Resource, object: &Value) -> (usize, Vec<String>) {
    let name = object["metadata"]["name"].as_str().expect("objects have names").to_owned();
    let mut writes = Writes::begin(cluster, &base(row), &name).await;
    let created = writes.send("POST", "", JSON, object).await;
    if created.code != 201 {
        return (0, writes.refused);
    }
    let label = |value: &str| json!({"metadata": {"labels": {"round": value}}});
    let mut put = created.json();
    put["metadata"]["labels"]["round"] = json!("put");
    writes.send("PUT", "", JSON, &put).await;
    writes.send("PATCH", "", MERGE, &label("merge")).await;
    writes.send("PATCH", "", MERGE, &label("merge")).await;
    writes.send("PATCH", "", "application/strategic-merge-patch+json", &label("strategic")).await;
    let by_json = json!([{"op": "replace", "path": "/metadata/labels/round", "value": "json"}]);
    writes.send("PATCH", "", "application/json-patch+json", &by_json).await;
    let mut applied = label("apply");
    (applied["apiVersion"], applied["kind"]) = (object["apiVersion"].clone(), object["kind"].clone());
    writes.send("PATCH", "?fieldManager=t&force=true", "application/apply-patch+yaml", &applied).await;
    writes
        .send("PATCH", "/status", MERGE, &json!({"metadata": {"annotations": {"a": "b"}}, "status": {}}))
        .await;
    writes.send("PATCH", "/scale", MERGE, &json!({"spec": {"replicas": 3}})).await;
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}});
    let approval = writes.send("PATCH", "/approval", MERGE, &approved).await;
    assert_eq!(
        approval.code == 200,
        row.kind == "CertificateSigningRequest",
        "{}: {}",
        row.kind,
        approval.json()
    );
    // Removing the last finalizer removes an object that is being deleted.
    writes.send("PATCH", "", MERGE, &json!({"metadata": {"finalizers": ["example.org/held"]}})).await;
    let grace = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    writes.send("DELETE", "", JSON, &grace).await;
    writes.send("DELETE", "", JSON, &grace).await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    writes.send("PATCH", "", MERGE, &finalizers).await;
    if row.is("", "namespaces") {
        let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}});
        writes.send("PUT", "/finalize", JSON, &empty).await;
    }
    // A name that is used again.
    if writes.send("POST", "", JSON, object).await.code == 201 {
        writes.send("PATCH", "", MERGE, &finalizers).await;
        writes.send("DELETE", "", JSON, &grace).await;
        if row.is("", "namespaces") {
            let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}});
            writes.send("PUT", "/finalize", JSON, &empty).await;
        }
    }
    let (accepted, refused) = (writes.answers.len(), writes.refused.clone());
    writes.check().await;
    (accepted, refused)
}

/// Objects of kinds that the files lack: those of 1.37, and definitions.
fn newer_objects() -> Vec<Value> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = authority.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
    vec![
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": {"name": "bundle"},
            "spec": {"trustBundle": authority.pem()}}),
        super::pod_certificates::request("request"),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "taint"},
            "spec": {"deviceSelector": {"driver": "a.example.org"}, "taint": {"key": "a.example.org/b", "effect": "NoSchedule"}}}),
        json!({"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration", "metadata": {"name": "migration"},
            "spec": {"resource": {"group": "apps", "resource": "deployments"}}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.own.example.org"}, "spec": {"group": "own.example.org", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    ]
}

#[test]
fn every_write_of_every_kind_answers_with_the_revision_of_its_own_event() {
    simulate(Setup::api_alone(), async |cluster| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        cluster.create(account).await;
        let served = super::version_rows::rows(Minor::DEFAULT);
        let (mut kinds, mut accepted, mut left_out) = (BTreeSet::new(), 0, Vec::new());
        let entries =
            OBJECTS.iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).expect("objects"));
        let entries = entries.filter(|entry| entry["review"] != true && !entry["variants"].is_object());
        for mut object in entries.map(|entry| entry["object"].clone()).chain(newer_objects()) {
            let text = |member: &str| object[member].as_str().expect("an object names its kind").to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            let row = served.iter().find(|row| row.api_version() == api_version && row.kind == kind);
            let row = *row.expect("the kind is served");
            if row.namespaced {
                object["metadata"]["namespace"] = json!("default");
            }
            let (own, refused) = write(cluster, row, &object).await;
            if own == 0 {
                left_out.push(format!("{}: {}", row.plural, refused.join("; ")));
                continue;
            }
            assert!(own >= 9, "{}: {own} writes: {refused:?}", row.plural);
            kinds.insert((row.group, row.plural));
            accepted += own;
        }
        let all = served.iter().filter(|row| row.verbs.contains(&"update"));
        let all: BTreeSet<_> = all.map(|row| (row.group, row.plural)).collect();
        let missing: Vec<_> = all.difference(&kinds).collect();
        assert!(missing.is_empty(), "{missing:?} {left_out:#?}");
        assert!(accepted > 600, "{accepted}");
    });
}

#[test]
fn bindings_and_evictions_answer_with_the_revision_of_the_pods_event() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut writes = Writes::begin(cluster, super::PODS, "p").await;
        let sized = json!({"containers": [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}]});
        writes.send("POST", "", JSON, &manifests::pod("p", sized)).await;
        let larger =
            json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}]}});
        let strategic = "application/strategic-merge-patch+json";
        let resized = writes.send("PATCH", "/resize", strategic, &larger).await;
        assert_eq!(resized.code, 200, "{}", resized.json());
        assert_eq!(resized.json()["spec"]["containers"][0]["resources"]["requests"]["cpu"], "200m");
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        assert_eq!(writes.send("POST", "/binding", JSON, &binding).await.code, 201);
        let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}});
        assert_eq!(writes.send("PATCH", "/ephemeralcontainers", strategic, &debug).await.code, 200);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}});
        assert_eq!(writes.send("POST", "/eviction", JSON, &eviction).await.code, 201);
        writes.check().await;
    });
}
