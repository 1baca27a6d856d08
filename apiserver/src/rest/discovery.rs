//! Discovery of groups, versions and resources, in the two forms that clients read: one document per group
//! and version (legacy; in JSON, YAML and protobuf), and one document for everything (aggregated; in JSON). A
//! pure function of the table of resources and of the discovery documents of aggregated API servers.

use super::accept::{self, Clause};
use super::content::Encoding;
use super::document::Document;
use super::hashed_version;
use super::ordered::Ordered;
use super::respond::encode;
use crate::aggregator::{AggregatedApi, AggregatedApis};
use bytes::Bytes;
use http::{HeaderMap, Response};
use kstore_api::crd;
use kstore_api::resource::{Resource, Subresource};
use kstore_api::status::Status;
use kstore_registry::kinds::Kinds;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

const JSON: &str = "application/json";
/// The encodings in order of preference, for callers that accept several.
const ENCODINGS: [Encoding; 3] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All discovery documents of one server; each is encoded when a client first requests it.
#[derive(Debug)]
pub struct Discovery {
    address: String,
    kinds: Arc<Kinds>,
    /// All groups except the core group, in the order of clients' preference.
    groups: Vec<ServedGroup>,
    /// Legacy documents by path, without a trailing slash.
    legacy: BTreeMap<String, Arc<Legacy>>,
    aggregated_core: OnceLock<Document>,
    aggregated_groups: OnceLock<Document>,
}

/// A group and its versions, in the order of clients' preference.
#[derive(Debug)]
struct ServedGroup {
    name: Arc<str>,
    versions: Vec<ServedVersion>,
}

/// A version of a group, and the server that serves it.
#[derive(Debug)]
enum ServedVersion {
    Local(&'static str),
    Aggregated(AggregatedApi),
}

impl ServedVersion {
    fn name(&self) -> &str {
        match self {
            Self::Local(name) => name,
            Self::Aggregated(remote) => &remote.service.version,
        }
    }
}

/// All groups that this server or an aggregated API server serves.
fn groups(kinds: &Kinds, apis: &AggregatedApis) -> Vec<ServedGroup> {
    let mut groups: Vec<ServedGroup> = Vec::new();
    for group in kinds.listed_rows().groups().filter(|group| !group.is_empty()) {
        let here =
            kinds.listed_rows().versions(group).filter(|version| apis.remote(group, version).is_none());
        groups.push(ServedGroup { name: group.into(), versions: here.map(ServedVersion::Local).collect() });
    }
    for remote in &apis.apis {
        let at = groups.iter().position(|group| group.name == remote.service.group);
        let at = at.unwrap_or_else(|| {
            groups.push(ServedGroup { name: remote.service.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        groups[at].versions.push(ServedVersion::Aggregated(remote.clone()));
    }
    let services = &apis.services;
    groups.sort_by_cached_key(|group| (Reverse(services.group_priority(&group.name)), group.name.clone()));
    for ServedGroup { name, versions } in &mut groups {
        versions.sort_by(|a, b| services.compare_versions(name, a.name(), b.name()));
    }
    groups
}

/// The subject of a legacy document.
#[derive(Clone, Debug)]
enum Subject {
    Versions,
    Groups,
    Group(Arc<str>),
    Resources(&'static str, &'static str),
}

/// The inputs of a legacy document besides built-in kinds: it is encoded again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dependency {
    /// A group has a version at this position in the order.
    Version(Arc<str>, Arc<str>),
    /// The definition with this storage key has this revision.
    Definition(String, i64),
}

/// A legacy document in the encodings requested so far.
#[derive(Debug)]
struct Legacy {
    subject: Subject,
    /// The inputs besides built-in kinds.
    dependencies: Vec<Dependency>,
    json: OnceLock<Document>,
    yaml: OnceLock<Document>,
    protobuf: OnceLock<Document>,
}

impl Legacy {
    fn new(subject: Subject, dependencies: Vec<Dependency>) -> Arc<Self> {
        let (json, yaml, protobuf) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { subject, dependencies, json, yaml, protobuf })
    }

    fn of(&self, encoding: Encoding, value: impl Fn() -> Value) -> &Document {
        let made = |encoding: Encoding| {
            let mut value = value();
            // The protobuf envelope requires `apiVersion`, which documents of the core group lack in JSON.
            if encoding == Encoding::Protobuf {
                value["apiVersion"] = json!("v1");
            }
            let bytes = encode(&value, encoding).expect("discovery is of kinds in the field table");
            Document::new(encoding.content_type(), bytes.into())
        };
        match encoding {
            Encoding::Json | Encoding::PrettyJson => {
                self.json.get_or_init(|| Document::new(JSON, line(&value())))
            }
            Encoding::Yaml => self.yaml.get_or_init(|| made(encoding)),
            Encoding::Protobuf => self.protobuf.get_or_init(|| made(encoding)),
        }
    }
}

impl Discovery {
    /// The documents for all kinds of this server and of the API servers in `apis`. Documents that have not
    /// changed since `previous` are reused. `address` is the `host:port` at which clients reach the server.
    pub(crate) fn new(
        address: &str,
        kinds: &Arc<Kinds>,
        apis: &AggregatedApis,
        previous: Option<&Self>,
    ) -> Self {
        let rows = kinds.listed_rows();
        let groups = groups(kinds, apis);
        // One document contains the address.
        let previous = previous.filter(|previous| previous.address == address);
        let mut legacy = BTreeMap::new();
        let mut add = |path: String, subject, dependencies: Vec<Dependency>| {
            let known = previous.and_then(|previous| previous.legacy.get(&path));
            let known = known.filter(|known| known.dependencies == dependencies).cloned();
            legacy.insert(path, known.unwrap_or_else(|| Legacy::new(subject, dependencies)));
        };
        add("/api".to_owned(), Subject::Versions, Vec::new());
        for version in rows.versions("") {
            add(path("", version), Subject::Resources("", version), Vec::new());
        }
        let mut all = Vec::new();
        for group in &groups {
            let mut of_group = Vec::new();
            for version in &group.versions {
                of_group.push(Dependency::Version(group.name.clone(), version.name().into()));
                let ServedVersion::Local(version) = version else { continue };
                let custom = rows.resources_of(&group.name, version).filter_map(|row| kinds.custom(row));
                let definitions: Vec<Dependency> = custom
                    .map(|custom| Dependency::Definition(custom.kind.key.clone(), custom.kind.revision))
                    .collect();
                of_group.extend(definitions.iter().cloned());
                let Some(row) = rows.resources_of(&group.name, version).next() else { continue };
                add(path(row.group, version), Subject::Resources(row.group, version), definitions);
            }
            all.extend(of_group.iter().cloned());
            add(format!("/apis/{}", group.name), Subject::Group(group.name.clone()), of_group);
        }
        add("/apis".to_owned(), Subject::Groups, all);
        let (aggregated_core, aggregated_groups) = (OnceLock::new(), OnceLock::new());
        let (address, kinds) = (address.to_owned(), kinds.clone());
        Self { address, kinds, groups, legacy, aggregated_core, aggregated_groups }
    }

    /// Whether both have the same documents, so that one can replace the other. False with any aggregated API
    /// server, whose resources change on their own.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let is_local = |version: &ServedVersion| matches!(version, ServedVersion::Local(_));
        let are_local = |all: &Self| all.groups.iter().flat_map(|group| &group.versions).all(is_local);
        // The legacy documents depend on the order of groups and on all definitions, as do the aggregated ones.
        self.address == other.address
            && are_local(self)
            && are_local(other)
            && self.legacy.len() == other.legacy.len()
            && self.legacy.iter().zip(&other.legacy).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
    }

    fn value(&self, subject: &Subject) -> Value {
        let kinds = &*self.kinds;
        match subject {
            Subject::Versions => api_versions(&self.address, kinds),
            Subject::Groups => {
                let groups: Vec<Value> = self.groups.iter().map(api_group).collect();
                json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
            }
            Subject::Group(name) => {
                let group = self.groups.iter().find(|group| group.name == *name);
                let mut value = group.map(api_group).unwrap_or_default();
                value["kind"] = json!("APIGroup");
                value["apiVersion"] = json!("v1");
                value
            }
            Subject::Resources(group, version) => resource_list(kinds, group, version),
        }
    }

    /// The aggregated document of the core group, or of all other groups.
    fn aggregated(&self, is_core: bool) -> &Document {
        let slot = if is_core { &self.aggregated_core } else { &self.aggregated_groups };
        slot.get_or_init(|| {
            let core = [ServedGroup {
                name: "".into(),
                versions: self.kinds.listed_rows().versions("").map(ServedVersion::Local).collect(),
            }];
            let groups = if is_core { &core } else { self.groups.as_slice() };
            Document::new(AGGREGATED, line(&aggregated(&self.kinds, groups)))
        })
    }

    /// Answers a GET of a discovery path; `None` for other paths.
    ///
    /// # Errors
    /// 406 if the caller accepts no encoding of it.
    pub fn answer(&self, path: &str, headers: &HeaderMap) -> Option<Result<Response<Bytes>, Status>> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let legacy = self.legacy.get(path)?;
        let is_root = matches!(legacy.subject, Subject::Versions | Subject::Groups);
        for clause in accept::clauses(headers) {
            let accepted = ENCODINGS.into_iter().find(|encoding| clause.accepts(encoding.content_type()));
            if let Some(encoding) = accepted.filter(|_| clause.parameter("as").is_empty()) {
                let document = legacy.of(encoding, || self.value(&legacy.subject));
                return Some(Ok(document.respond(headers)));
            }
            if is_root && wants_aggregated(&clause) {
                let is_core = matches!(legacy.subject, Subject::Versions);
                return Some(Ok(self.aggregated(is_core).respond(headers)));
            }
        }
        Some(Err(Status::not_acceptable(&ENCODINGS.map(Encoding::content_type))))
    }
}

fn wants_aggregated(clause: &Clause) -> bool {
    clause.accepts(JSON)
        && clause.parameter("as") == "APIGroupDiscoveryList"
        && clause.parameter("g") == "apidiscovery.k8s.io"
        && clause.parameter("v") == "v2"
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(&Ordered(value)).expect("a value has string keys only");
    bytes.push(b'\n');
    bytes
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn api_versions(address: &str, kinds: &Kinds) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": kinds.listed_rows().versions("").collect::<Vec<_>>(),
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

fn api_group(group: &ServedGroup) -> Value {
    let version = |version: &ServedVersion| json!({ "groupVersion": group_version(&group.name, version.name()), "version": version.name() });
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({ "name": &*group.name, "versions": versions, "preferredVersion": versions.first() })
}

fn resource_list(kinds: &Kinds, group: &'static str, version: &'static str) -> Value {
    let mut resources = Vec::new();
    for resource in kinds.listed_rows().resources_of(group, version) {
        if let Some(custom) = kinds.custom(resource) {
            resources.extend(crd::discovery::api_resources(custom.definition(), custom.version()));
            continue;
        }
        resources.push(legacy_resource(resource));
        resources.extend(resource.subresources.iter().map(|sub| legacy_subresource(resource, sub)));
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": resources,
    });
    // The core group is older than the versions of these documents, so its document lacks `apiVersion`.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn legacy_resource(resource: &'static Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    names(resource, entry.as_object_mut().expect("made as an object two lines above"));
    if resource.is_stored() {
        let stored = resource.storage_row();
        let version = hashed_version::of(resource.minor, stored);
        let hash = crd::discovery::storage_version_hash(stored.group, version, stored.kind);
        entry["storageVersionHash"] = json!(hash);
    }
    entry
}

fn legacy_subresource(resource: &Resource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if (sub.group, sub.version) != (resource.group, resource.version) {
        entry["group"] = json!(sub.group);
        entry["version"] = json!(sub.version);
    }
    entry
}

/// Adds short names and categories, where there are any.
fn names(resource: &Resource, entry: &mut Map<String, Value>) {
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), json!(resource.categories));
    }
}

fn aggregated(kinds: &Kinds, groups: &[ServedGroup]) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| aggregated_version(kinds, &group.name, version))
                .collect();
            let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": &*group.name }) };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_version(kinds: &Kinds, group: &str, version: &ServedVersion) -> Value {
    match version {
        ServedVersion::Local(version) => {
            let rows = kinds.listed_rows().resources_of(group, version);
            let resources: Vec<Value> = rows.map(|row| aggregated_resource(kinds, row)).collect();
            json!({ "version": version, "freshness": "Current", "resources": resources })
        }
        // The resources that the API server last reported; only the version if it has not reported any.
        ServedVersion::Aggregated(AggregatedApi { service, is_available, documents }) => {
            let freshness = if *is_available { "Current" } else { "Stale" };
            let mut entry = json!({ "version": &*service.version, "freshness": freshness });
            if let Some(documents) = documents {
                entry["resources"] = documents.resources.clone();
            }
            entry
        }
    }
}

fn aggregated_resource(kinds: &Kinds, resource: &'static Resource) -> Value {
    if let Some(custom) = kinds.custom(resource) {
        return crd::discovery::aggregated_resource(custom.definition(), custom.version());
    }
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, (resource.group, resource.version, resource.kind)),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    names(resource, entry.as_object_mut().expect("made as an object two lines above"));
    let subresource = |sub: &'static Subresource| {
        json!({
            "subresource": sub.name,
            "responseKind": response_kind(resource, (sub.group, sub.version, sub.kind)),
            "verbs": sub.verbs,
        })
    };
    let subresources: Vec<Value> = resource.subresources.iter().map(subresource).collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

/// The kind of an answer. Kubernetes leaves group and version of a built-in kind empty if they equal those of
/// the list.
fn response_kind(resource: &Resource, (group, version, kind): (&str, &str, &str)) -> Value {
    let is_own = (group, version) == (resource.group, resource.version);
    let (group, version) = if is_own { ("", "") } else { (group, version) };
    json!({ "group": group, "version": version, "kind": kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, CONTENT_TYPE};

    fn get(path: &str, accept: &str) -> (Value, String) {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let response =
            Discovery::new("localhost:6443", &Arc::new(Kinds::built_in()), &AggregatedApis::default(), None)
                .answer(path, &headers)
                .unwrap()
                .unwrap();
        let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        (serde_json::from_slice(response.body()).unwrap(), content_type)
    }

    fn entry<'v>(list: &'v Value, field: &str, name: &str) -> &'v Value {
        list.as_array().unwrap().iter().find(|item| item[field] == name).unwrap()
    }

    #[test]
    fn legacy_documents_list_resources_and_subresources() {
        let (core, _) = get("/api/v1", JSON);
        let pods = entry(&core["resources"], "name", "pods");
        assert_eq!(pods["storageVersionHash"], "xPOwRZ+Yhw8=", "as in every Kubernetes cluster");
        assert_eq!((&pods["shortNames"], &pods["namespaced"]), (&json!(["po"]), &json!(true)));
        let eviction = entry(&core["resources"], "name", "pods/eviction");
        let (kind, group, version) = (&eviction["kind"], &eviction["group"], &eviction["version"]);
        assert_eq!((kind, group, version), (&json!("Eviction"), &json!("policy"), &json!("v1")));
        let (groups, _) = get("/apis/", "");
        let autoscaling = entry(&groups["groups"], "name", "autoscaling");
        assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
        assert_eq!(get("/apis/apps", JSON).0["kind"], "APIGroup");
        assert_eq!(get("/api", JSON).0["versions"], json!(["v1"]));
    }

    #[test]
    fn legacy_documents_have_members_in_kubernetes_order() {
        let starts = [
            (
                "/api",
                r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"#,
            ),
            ("/api/v1", r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","#),
            (
                "/apis",
                r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiregistration.k8s.io","versions":"#,
            ),
            (
                "/apis/apps",
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"#,
            ),
            (
                "/apis/apps/v1",
                r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":"#,
            ),
        ];
        for (path, start) in starts {
            let text = body(path, JSON);
            assert!(text.starts_with(start), "{path}: {}", &text[..200]);
        }
        let config_maps = concat!(
            r#"{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","#,
            r#""verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"#,
            r#""shortNames":["cm"],"storageVersionHash":"#,
        );
        assert!(body("/api/v1", JSON).contains(config_maps), "scripts cut these documents as text");
        let scale = concat!(
            r#"{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","#,
            r#""version":"v1","kind":"Scale","verbs":["#,
        );
        assert!(body("/apis/apps/v1", JSON).contains(scale));
        let aggregated = body("/api", AGGREGATED);
        let pods = r#"{"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"#;
        assert!(aggregated.contains(pods) && aggregated.contains(r#""items":[{"metadata":{},"versions":"#));
    }

    fn body(path: &str, accept: &str) -> String {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let response =
            Discovery::new("localhost:6443", &Arc::new(Kinds::built_in()), &AggregatedApis::default(), None)
                .answer(path, &headers)
                .unwrap()
                .unwrap();
        String::from_utf8(response.body().to_vec()).unwrap()
    }

    #[test]
    fn clients_that_accept_aggregated_discovery_receive_it() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;\
                       g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let (groups, content_type) = get("/apis", kubectl);
        assert_eq!(content_type, AGGREGATED);
        let apps =
            groups["items"].as_array().unwrap().iter().find(|i| i["metadata"]["name"] == "apps").unwrap();
        let deployments = entry(&apps["versions"][0]["resources"], "resource", "deployments");
        let scale = entry(&deployments["subresources"], "subresource", "scale");
        assert_eq!(
            scale["responseKind"],
            json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" })
        );
        let (core, _) = get("/api", kubectl);
        assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
        let old =
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(get("/apis", old).1, JSON, "clients without v2 receive the legacy form");
    }

    #[test]
    fn legacy_documents_are_served_in_yaml_and_protobuf() {
        let discovery =
            Discovery::new("localhost:6443", &Arc::new(Kinds::built_in()), &AggregatedApis::default(), None);
        for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"] {
            let get = |accept: &str| {
                let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
                discovery.answer(path, &headers).unwrap().unwrap()
            };
            let json: Value = serde_json::from_slice(get(JSON).body()).unwrap();
            let yaml = get("application/yaml");
            assert_eq!(yaml.headers()[CONTENT_TYPE], "application/yaml");
            assert_eq!(serde_yaml_ng::from_slice::<Value>(yaml.body()).unwrap(), json, "{path}");
            let protobuf = get("application/vnd.kubernetes.protobuf, */*");
            assert_eq!(protobuf.headers()[CONTENT_TYPE], "application/vnd.kubernetes.protobuf");
            let (_, decoded) = kstore_api::wire::protobuf::decode(protobuf.body()).unwrap();
            let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            let only = |value: &Value, keep: &str| members(value).into_iter().filter(|m| m == keep).count();
            for member in ["groups", "name", "resources", "versions"] {
                assert_eq!(only(&decoded, member), only(&json, member), "{path}");
            }
            assert_eq!(decoded["groups"][0]["name"], json["groups"][0]["name"]);
            assert_eq!(decoded["resources"][0]["verbs"], json["resources"][0]["verbs"]);
        }
    }

    #[test]
    fn documents_with_another_address_are_not_shared() {
        let (kinds, apis) = (Arc::new(Kinds::built_in()), AggregatedApis::default());
        let first = Discovery::new("first:6443", &kinds, &apis, None);
        let again = Discovery::new("first:6443", &Arc::new(Kinds::built_in()), &apis, Some(&first));
        assert!(again.is_as(&first));
        let address = |discovery: &Discovery| {
            let response = discovery.answer("/api", &HeaderMap::new()).unwrap().unwrap();
            let versions: Value = serde_json::from_slice(response.body()).unwrap();
            versions["serverAddressByClientCIDRs"][0]["serverAddress"].clone()
        };
        assert_eq!(address(&first), "first:6443");
        let second = Discovery::new("second:6443", &kinds, &apis, Some(&first));
        assert_eq!((second.is_as(&first), address(&second)), (false, json!("second:6443")));
    }

    #[test]
    fn other_paths_and_other_types_are_not_answered() {
        let discovery =
            Discovery::new("localhost:6443", &Arc::new(Kinds::built_in()), &AggregatedApis::default(), None);
        assert!(discovery.answer("/apis/absent.example.com", &HeaderMap::new()).is_none());
        assert!(discovery.answer("/api/v1/pods", &HeaderMap::new()).is_none());
        let xml = HeaderMap::from_iter([(ACCEPT, "application/xml".parse().unwrap())]);
        assert_eq!(discovery.answer("/api", &xml).unwrap().unwrap_err().code, 406);
    }
}
