//! Each in-tree plugin over a small cluster.

mod authorization;
mod configured;
mod declared_features;
mod defaults_of_classes;
mod optional;
mod pod_groups;
mod pods;
pub(super) mod resized_pods;
mod trust_bundles;
mod versions;

use super::PLUGINS;
use crate::admission::Admission;
use crate::chain::RunningPlugin;
use crate::configured::{ConfigurationError, ConfiguredPlugins};
use crate::dynamic::{Admitted, Calls, Options};
use crate::plugin::{Cluster, ConfigurationContext, Enabled, Plugin, Row};
use crate::registered::{PluginSwitches, plugins};
use crate::subject::Subject;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_access::authz::policy::Policy;
use kstore_access::authz::{Authorizer, bootstrap};
use kstore_api::admission::Operation;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_api::{kind, meta};
use kstore_nondet::{Nondet, Rng};
use kstore_registry::outbound::{Network, ServiceBackends};
use kstore_registry::request::Target;
use kstore_registry::testing::MapLookup;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::{MASTERS, UserInfo};
use serde_json::{Value, json};
use std::sync::Arc;

impl Cluster for MapLookup {
    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy::compile(self))
    }
}

fn namespace(name: &str, phase: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "status": { "phase": phase } })
}

fn class(name: &str, value: i64, default: bool) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
        "value": value, "globalDefault": default,
    })
}

fn pod(spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "a" }, "spec": spec })
}

/// The admission chain of a cluster without webhooks.
fn chain(cluster: Arc<MapLookup>) -> Admission {
    let authorizer = Arc::new(Authorizer::new(cluster.clone()));
    let network = Arc::new(Network::new(ServiceBackends::default()));
    Admission::new(cluster, authorizer, network, Nondet::simulated(1))
}

/// A chain of one plugin.
pub(super) fn chain_of(row: &'static Row, plugin: Arc<dyn Plugin>, cluster: Arc<MapLookup>) -> Admission {
    chain(cluster).with_plugin(RunningPlugin { row, plugin })
}

/// Configures a plugin that needs no server.
fn configure(
    configured: &mut ConfiguredPlugins,
    plugin: &str,
    document: Value,
) -> Result<(), ConfigurationError> {
    let (connect, rng) = (|_: &str, _: &_| Err("no server".to_owned()), Rng::seeded(1));
    configured.configure(
        plugin,
        document,
        &ConfigurationContext { connect: &connect, rng: &rng, manifests: None },
    )
}

/// A request, with what is known of it between decisions.
pub(super) struct TestRequest<'a> {
    admission: &'a Admission,
    subject: Subject<'a>,
    target: Target,
    pub(super) calls: Calls,
}

impl<'a> TestRequest<'a> {
    pub(super) fn new(admission: &'a Admission, subject: Subject<'a>) -> Self {
        let (namespace, name) = (subject.namespace.to_owned(), subject.name.to_owned());
        let target = Target { resource: subject.resource, custom: None, subresource: "", namespace, name };
        Self { admission, subject, target, calls: admission.calls(subject.user) }
    }

    fn admitted(&self) -> Admitted<'_> {
        let (subject, target) = (self.subject, &self.target);
        Admitted { subject, target, options: Options::None, calls: &self.calls }
    }

    pub(super) fn mutate(&self, new: &mut Value, old: Option<&Value>) -> Result<(), Undecided> {
        self.admission.mutate(&self.admitted(), new, old)
    }

    pub(super) fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Undecided> {
        self.admission.validate(&self.admitted(), new, old)
    }

    pub(super) fn admit_unstored(&self, body: &mut Value) -> Result<(), Undecided> {
        self.admission.admit_unstored(&self.admitted(), body, None)
    }
}

struct Case {
    cluster: Vec<Value>,
    user: UserInfo,
    operation: Operation,
    subresource: &'static str,
    old: Option<Value>,
    switches: PluginSwitches,
    configured: ConfiguredPlugins,
    minor: Minor,
}

impl Case {
    fn create(cluster: impl IntoIterator<Item = Value>) -> Self {
        let namespaces = [namespace("a", "Active"), namespace("gone", "Terminating")];
        let cluster = namespaces.into_iter().chain(cluster).collect();
        let user = UserInfo::new("admin", [MASTERS]);
        Self {
            cluster,
            user,
            operation: Operation::Create,
            subresource: "",
            old: None,
            switches: PluginSwitches::default(),
            configured: ConfiguredPlugins::default(),
            minor: Minor::DEFAULT,
        }
    }

    /// The object after mutation and validation.
    fn admit(&self, mut object: Value) -> Result<Value, Status> {
        let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let kinds = kind::Kinds::new(kind::OptIn::version(self.minor), &[], &[]);
        let (namespace, name) = (meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
        let subject = Subject {
            user: &self.user,
            operation: self.operation,
            resource: kinds.lookup_api_version(api_version, kind).unwrap(),
            subresource: self.subresource,
            namespace: &namespace,
            name: &name,
            seed: 1,
        };
        let admission =
            chain(MapLookup::of(self.cluster.iter().cloned())).with(&self.switches, &self.configured);
        let request = TestRequest::new(&admission, subject);
        if self.operation == Operation::Delete {
            request.validate(None, Some(&object)).map_err(refused)?;
            return Ok(object);
        }
        request.mutate(&mut object, self.old.as_ref()).map_err(refused)?;
        request.validate(Some(&object), self.old.as_ref()).map_err(refused)?;
        Ok(object)
    }
}

/// The refusal of a decision that waits for nothing.
pub(super) fn refused(undecided: Undecided) -> Status {
    match undecided {
        Undecided::Refused(status) => status,
        Undecided::Pending(_) => panic!("the decision waits"),
    }
}

#[test]
fn rows_are_complete() {
    let names: Vec<&str> = PLUGINS.iter().map(|row| row.name).collect();
    for (at, row) in PLUGINS.iter().enumerate() {
        let name = row.name;
        assert!(!names[..at].contains(&name), "{name} has two rows");
        let phases = [row.prepares, row.mutates, row.completes, row.validates];
        let has_phase = phases.iter().any(|operations| !operations.is_empty());
        let charges = (row.plugin)().limited_resources().is_some();
        assert!(has_phase || charges || name == "AlwaysAdmit", "{name} does nothing");
        assert!(row.enabled != Enabled::Always || plugins().all(|known| known != name));
        for (group, plural) in row.kinds {
            let has_kind = |minor| kind::every_of(minor).any(|kind| kind.is(group, plural));
            assert!(Minor::ALL.into_iter().any(has_kind), "{name} reviews {plural}, which no kind has");
        }
    }
}

#[test]
fn the_page_about_security_names_the_plugins() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (enabled, runs) in [(Enabled::ByDefault, "by default"), (Enabled::OnRequest, "on request")] {
        let names: Vec<&str> =
            PLUGINS.iter().filter(|row| row.enabled == enabled).map(|row| row.name).collect();
        let line = format!("| {runs} | {} |", names.join(", "));
        assert!(page.lines().any(|known| known == line), "docs/security.md lacks the line {line}");
    }
}

#[test]
fn a_namespace_must_exist_and_not_be_terminating() {
    let case = Case::create([]);
    let config = |namespace: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": namespace } });
    assert!(case.admit(config("a")).is_ok());
    let missing = case.admit(config("b")).unwrap_err();
    assert_eq!((missing.code, missing.message.as_str()), (404, r#"namespaces "b" not found"#));
    let terminating = case.admit(config("gone")).unwrap_err();
    let text = r#"configmaps "c" is forbidden: unable to create new content in namespace gone because it is being terminated"#;
    assert_eq!((terminating.code, terminating.message.as_str()), (403, text));
    let cause = &terminating.details.unwrap().causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("NamespaceTerminating", "metadata.namespace"));
    assert!(Case { operation: Operation::Update, ..Case::create([]) }.admit(config("gone")).is_ok());
}

#[test]
fn three_namespaces_cannot_be_deleted() {
    let case = Case { operation: Operation::Delete, ..Case::create([]) };
    assert!(case.admit(namespace("a", "Active")).is_ok());
    let refused = case.admit(namespace("kube-system", "Active")).unwrap_err();
    assert_eq!(
        refused.message,
        r#"namespaces "kube-system" is forbidden: this namespace may not be deleted"#
    );
}

#[test]
fn a_pod_runs_as_a_service_account_that_exists() {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "builder", "namespace": "a" },
        "imagePullSecrets": [{ "name": "registry" }],
    });
    let case = Case::create([account]);
    assert_eq!(case.admit(pod(json!({}))).unwrap()["spec"]["serviceAccountName"], "default");
    let builder = case.admit(pod(json!({ "serviceAccountName": "builder" }))).unwrap();
    assert_eq!(builder["spec"]["serviceAccount"], "builder");
    assert_eq!(builder["spec"]["imagePullSecrets"][0]["name"], "registry");
    let refused = case.admit(pod(json!({ "serviceAccountName": "nobody" }))).unwrap_err();
    let text = r#"pods "p" is forbidden: error looking up service account a/nobody: serviceaccount "nobody" not found"#;
    assert_eq!(refused.message, text);
}

#[test]
fn a_pod_mounts_the_token_of_its_account() {
    let account = |name: &str, rest: Value| {
        let mut account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": "a" } });
        account.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        account
    };
    let case = Case::create([
        account("quiet", json!({ "automountServiceAccountToken": false })),
        account("default", json!({})),
    ]);
    let spec = |account: &str| json!({ "containers": [{ "name": "c" }], "serviceAccountName": account });
    let admitted = case.admit(pod(spec("default"))).unwrap();
    let volume = admitted["spec"]["volumes"][0]["name"].as_str().unwrap();
    assert_eq!(volume.strip_prefix("kube-api-access-").unwrap().len(), 5);
    assert_eq!(admitted["spec"]["containers"][0]["volumeMounts"][0]["name"], volume);
    assert_eq!(
        case.admit(pod(spec("default"))).unwrap(),
        admitted,
        "decided again, the volume has the same name"
    );
    let quiet = case.admit(pod(spec("quiet"))).unwrap();
    assert!(quiet["spec"]["volumes"].is_null() && quiet["spec"]["containers"][0]["volumeMounts"].is_null());
    let early = Case::create([]).admit(pod(spec(""))).unwrap();
    assert_eq!(
        early["spec"]["volumes"][0]["name"], volume,
        "the account of a new namespace need not be there yet"
    );
}

#[test]
fn accounts_can_limit_secrets_also_for_ephemeral_containers() {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "s2", "namespace": "a", "annotations": { "kubernetes.io/enforce-mountable-secrets": "true" } },
        "secrets": [{ "name": "mine" }],
    });
    let create = Case::create([account]);
    let mut new = pod(
        json!({ "serviceAccountName": "s2", "volumes": [{ "name": "v", "secret": { "secretName": "other" } }] }),
    );
    let refused = create.admit(new.clone()).unwrap_err();
    let text = r#"pods "p" is forbidden: volume with secret.secretName="other" is not allowed because service account s2 does not reference that secret"#;
    assert_eq!((refused.code, refused.message.as_str()), (403, text));
    new["spec"]["ephemeralContainers"] =
        json!([{ "name": "d", "envFrom": [{ "secretRef": { "name": "other" } }] }]);
    let debug = Case { operation: Operation::Update, subresource: "ephemeralcontainers", ..create };
    let refused = debug.admit(new).unwrap_err();
    let text = r#"pods "p" is forbidden: ephemeral container d with envFrom referencing secret.secretName="other" is not allowed because service account s2 does not reference that secret"#;
    assert_eq!(refused.message, text);
}

#[test]
fn a_mirror_pod_uses_no_account_and_no_secrets() {
    let mirror = |spec: Value| {
        let mut pod = pod(spec);
        pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "h" });
        pod
    };
    let plain = json!({ "containers": [{ "name": "c" }] });
    let admitted = Case::create([]).admit(mirror(plain)).unwrap();
    let spec = &admitted["spec"];
    assert!(spec["serviceAccountName"].is_null() && spec["volumes"].is_null(), "{spec}");
    let projected =
        |source: Value| json!({ "volumes": [{ "name": "v", "projected": { "sources": [source] } }] });
    for (spec, why) in [
        (json!({ "serviceAccountName": "default" }), "a mirror pod may not reference service accounts"),
        (json!({ "imagePullSecrets": [{ "name": "x" }] }), "a mirror pod may not reference secrets"),
        (
            projected(json!({ "serviceAccountToken": { "path": "t" } })),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        (
            projected(json!({ "clusterTrustBundle": { "path": "t" } })),
            "a mirror pod may not use ClusterTrustBundle volume projections",
        ),
    ] {
        let refused = Case::create([]).admit(mirror(spec)).unwrap_err();
        assert_eq!(refused.message, format!("pods \"p\" is forbidden: {why}"));
    }
}

#[test]
fn a_pod_gets_its_priority_from_its_class() {
    let case = Case::create([class("high", 1000, false), class("normal", 10, true)]);
    let high = case.admit(pod(json!({ "priorityClassName": "high" }))).unwrap();
    assert_eq!(high["spec"]["priority"], 1000);
    assert_eq!(high["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let unnamed = case.admit(pod(json!({}))).unwrap();
    assert_eq!(
        (&unnamed["spec"]["priorityClassName"], &unnamed["spec"]["priority"]),
        (&json!("normal"), &json!(10))
    );
    assert_eq!(Case::create([]).admit(pod(json!({}))).unwrap()["spec"]["priority"], 0);
    let missing = case.admit(pod(json!({ "priorityClassName": "none" }))).unwrap_err();
    assert_eq!(missing.message, r#"pods "p" is forbidden: no PriorityClass with name none was found"#);
    assert!(case.admit(pod(json!({ "priorityClassName": "high", "priority": 7 }))).is_err());
    assert_eq!(case.admit(class("other", 5, true)).unwrap_err().code, 403);
    assert!(case.admit(class("normal", 11, true)).is_ok());
}

#[test]
fn an_update_without_a_priority_keeps_it() {
    let old = Some(pod(json!({ "priority": 1000, "preemptionPolicy": "Never" })));
    let case = Case { operation: Operation::Update, old, ..Case::create([]) };
    let kept = case.admit(pod(json!({}))).unwrap();
    assert_eq!(
        (&kept["spec"]["priority"], &kept["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    let other = case.admit(pod(json!({ "priority": 7 }))).unwrap();
    assert_eq!(other["spec"]["priority"], 7, "for validation to refuse");
}

#[test]
fn a_certificate_request_records_its_requester() {
    let spec = json!({ "username": "else", "uid": "7", "groups": ["g"], "extra": { "a": ["b"] } });
    let request = json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": "r" }, "spec": spec });
    let by = |user: UserInfo| {
        let case = Case { user, ..Case::create([]) };
        case.admit(request.clone()).unwrap()["spec"].clone()
    };
    let jane = by(UserInfo::new("jane", ["system:authenticated"]));
    assert_eq!(jane, json!({ "username": "jane", "groups": ["system:authenticated"] }));
    let joe = UserInfo { uid: "8".into(), ..UserInfo::new("joe", ["dev"]) };
    assert_eq!(by(joe), json!({ "username": "joe", "uid": "8", "groups": ["dev", "system:authenticated"] }));
}

#[test]
fn pods_tolerate_unreachable_nodes_for_five_minutes_by_default() {
    let case = Case::create([]);
    let added = case.admit(pod(json!({}))).unwrap();
    let tolerations = added["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 2);
    assert_eq!(tolerations[0]["tolerationSeconds"], 300);
    let own = json!({ "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" }] });
    let own = case.admit(pod(own)).unwrap();
    assert_eq!(own["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let everything = case.admit(pod(json!({ "tolerations": [{ "operator": "Exists" }] }))).unwrap();
    assert_eq!(everything["spec"]["tolerations"].as_array().unwrap().len(), 1);
}

#[test]
fn a_new_node_is_tainted_once() {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    let case = Case::create([]);
    let tainted = case.admit(node).unwrap();
    let taint = json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]);
    assert_eq!(tainted["spec"]["taints"], taint);
    assert_eq!(case.admit(tainted).unwrap()["spec"]["taints"], taint);
}

#[test]
fn a_claim_without_a_class_gets_the_newest_default() {
    let storage = |name: &str, created: &str, default: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x",
            "metadata": { "name": name, "creationTimestamp": created,
                "annotations": { "storageclass.kubernetes.io/is-default-class": default } },
        })
    };
    let case = Case::create([
        storage("old", "2026-01-01T00:00:00Z", "true"),
        storage("new-b", "2026-01-02T00:00:00Z", "true"),
        storage("new-a", "2026-01-02T00:00:00Z", "true"),
        storage("newest", "2026-01-03T00:00:00Z", "false"),
    ]);
    let claim = |spec: Value| json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c", "namespace": "a" }, "spec": spec });
    assert_eq!(case.admit(claim(json!({}))).unwrap()["spec"]["storageClassName"], "new-a");
    assert_eq!(case.admit(claim(json!({ "storageClassName": "" }))).unwrap()["spec"]["storageClassName"], "");
}

#[test]
fn users_cannot_grant_permissions_that_they_do_not_hold() {
    let rbac = |kind: &str, extra: Value| {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": "x", "namespace": "a" },
        });
        object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object
    };
    let binds = |role: &str, user: &str| {
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        rbac("RoleBinding", json!({ "roleRef": role, "subjects": [{ "kind": "User", "name": user }] }))
    };
    let mut case = Case::create(bootstrap::objects().into_iter().chain([binds("admin", "ann")]));
    case.user = UserInfo::new("ann", [""; 0]);
    assert!(case.admit(binds("view", "bob")).is_ok());
    let refused = case.admit(binds("cluster-admin", "bob")).unwrap_err();
    assert!(
        refused.message.contains("is attempting to grant RBAC permissions not currently held:\n{"),
        "{refused}"
    );
    let role = |verb: &str| {
        rbac(
            "Role",
            json!({ "rules": [{ "verbs": [verb], "apiGroups": ["apps"], "resources": ["deployments"] }] }),
        )
    };
    assert!(case.admit(role("create")).is_ok());
    assert_eq!(case.admit(role("*")).unwrap_err().code, 403);
    assert_eq!(case.admit(binds("missing", "bob")).unwrap_err().code, 404);
}

#[test]
fn label_changes_and_removed_aggregation_rules_are_checked_as_escalation() {
    let role = |name: &str, labels: Value, extra: Value| {
        let mut object = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels } });
        object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object
    };
    let patcher = json!({ "rules": [
        { "verbs": ["get", "patch", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"] },
        { "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"] },
    ] });
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "ann" }, "subjects": [{ "kind": "User", "name": "ann" }],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "patcher" } });
    let cluster = bootstrap::objects().into_iter().chain([role("patcher", json!({}), patcher), binding]);
    let mut case = Case { operation: Operation::Update, ..Case::create(cluster) };
    case.user = UserInfo::new("ann", [""; 0]);
    let mut change = |old: &Value, new: Value| {
        case.old = Some(old.clone());
        case.admit(new).map_err(|status| status.code).map(|_| ())
    };

    let admin =
        bootstrap::objects().into_iter().find(|object| meta::name(object) == "cluster-admin").unwrap();
    let mut labelled = admin.clone();
    meta::set_label(&mut labelled, "rbac.authorization.k8s.io/aggregate-to-view", "true");
    assert_eq!(change(&admin, labelled), Err(403), "a label would make it part of `view`");
    let mut noted = admin.clone();
    meta::set_annotation(&mut noted, "note", "x");
    assert_eq!(change(&admin, noted), Err(403), "as in Kubernetes");
    let mut collected = admin.clone();
    meta::set_finalizers(&mut collected, ["foregroundDeletion"]);
    collected["metadata"]["ownerReferences"] = json!([]);
    collected["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(change(&admin, collected), Ok(()), "the garbage collector's changes");

    let pods = json!({ "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }] });
    let own = role("own", json!({}), pods.clone());
    assert_eq!(change(&own, role("own", json!({ "a": "b" }), pods)), Ok(()), "ann holds its rules");
    let mut gathers = own.clone();
    gathers["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] });
    assert_eq!(change(&own, gathers.clone()), Err(403), "an aggregation rule gathers anything");
    assert_eq!(change(&gathers, own), Err(403), "removing an aggregation rule requires all permissions too");
}

#[test]
fn a_small_role_with_a_huge_product_is_checked_quickly() {
    let letters: Vec<String> = (0..250).map(|n| format!("x{n}")).collect();
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "x", "namespace": "a" },
        "rules": [{ "verbs": letters, "apiGroups": letters, "resources": letters, "resourceNames": letters }] });
    let mut case = Case::create(bootstrap::objects());
    case.user = UserInfo::new("ann", [""; 0]);
    assert_eq!(case.admit(role).unwrap_err().code, 403);
}

fn signing_request(signer: &str, request: &str) -> Value {
    json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": "r" },
        "spec": { "signerName": signer, "request": request } })
}

/// The permissions of ann for signers.
fn signers_of_ann(verb: &str, signer: &str) -> [Value; 2] {
    let rbac = |kind: &str, extra: Value| {
        let mut object = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": "x" } });
        object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object
    };
    let rule = json!({ "verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer] });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x" });
    [
        rbac("ClusterRole", json!({ "rules": [rule] })),
        rbac(
            "ClusterRoleBinding",
            json!({ "roleRef": role, "subjects": [{ "kind": "User", "name": "ann" }] }),
        ),
    ]
}

#[test]
fn approving_and_signing_certificates_requires_permission_for_the_signer() {
    let old = signing_request("a.b/c", DEV_REQUEST);
    let with = |status: Value| {
        let mut new = old.clone();
        new["status"] = status;
        new
    };
    let approved = with(json!({ "conditions": [{ "type": "Approved", "status": "True" }] }));
    let issued = with(json!({ "certificate": "AAAA" }));
    let ask = |held: Option<(&str, &str)>, subresource, new: &Value| {
        let cluster = held.into_iter().flat_map(|(verb, signer)| signers_of_ann(verb, signer));
        let (user, old) = (UserInfo::new("ann", [""; 0]), Some(old.clone()));
        let case = Case { user, operation: Operation::Update, subresource, old, ..Case::create(cluster) };
        case.admit(new.clone()).map(|_| ()).map_err(|status| status.message)
    };
    let refused = |verb: &str| {
        Err(format!(
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to {verb} requests with signerName \"a.b/c\""
        ))
    };
    for (verb, subresource, new) in [("approve", "approval", &approved), ("sign", "status", &issued)] {
        assert_eq!(ask(None, subresource, new), refused(verb));
        for signer in ["a.b/c", "a.b/*"] {
            assert_eq!(ask(Some((verb, signer)), subresource, new), Ok(()), "{verb} {signer}");
        }
        for other in [("get", "a.b/c"), (verb, "a.b/d"), (verb, "a.c/*"), (verb, "a.b")] {
            assert_eq!(ask(Some(other), subresource, new), refused(verb), "{other:?}");
        }
    }
    assert_eq!(ask(None, "status", &approved), refused("sign"), "conditions are the signer's as well");
    assert_eq!(ask(None, "status", &with(json!({ "conditions": [] }))), Ok(()), "nothing changed");
    assert_eq!(ask(None, "", &approved), Ok(()), "other paths write neither");
}

#[test]
fn client_certificates_for_system_masters_are_refused() {
    let create = |signer: &str, request: &str| {
        Case::create([])
            .admit(signing_request(signer, request))
            .map(|_| ())
            .map_err(|status| (status.code, status.message))
    };
    let client = "kubernetes.io/kube-apiserver-client";
    assert_eq!(create(client, DEV_REQUEST), Ok(()));
    assert_eq!(create("a.b/c", MASTERS_REQUEST), Ok(()), "what others sign proves nothing to the API");
    let text = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with \
                system:masters group is not allowed";
    assert_eq!(create(client, MASTERS_REQUEST), Err((403, text.to_owned())));
    assert_eq!(create(client, "AAAA").unwrap_err().0, 403);
    // The same name as a T61String, which must be recognized too.
    let pem = STANDARD.decode(MASTERS_REQUEST).unwrap();
    let pem = x509_parser::pem::Pem::iter_from_buffer(&pem).next().unwrap().unwrap();
    let mut der = pem.contents;
    let at = der.windows(16).position(|bytes| bytes == b"\x0c\x0esystem:masters").unwrap();
    der[at] = 0x14;
    let body = STANDARD.encode(der);
    let other = format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n");
    assert_eq!(create(client, &STANDARD.encode(other)).unwrap_err().0, 403);
}

/// Requests of jane with the groups `dev`, and `dev` and `system:masters`, signed with Ed25519.
const DEV_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHY01GQUNBUUF3SFRFTU1Bb0dBMVVFQ2d3RFpHVjJNUTB3Q3dZRFZRUUREQVJxWVc1bE1Db3dCUVlESzJWdwpBeUVBV2lNMWVYWHhoektiekdtUWtPRXNkQm8vZjNKZVVnd1V1RHRpNXJ6QkhOaWdBREFGQmdNclpYQURRUUJSCkdDVXlNNFVoS2ozeVc5dVpzSGNmRHNZSHVLVHVmaXg3Nk1QK1o1WTJGYmhseERvYnhOYTJoMi9tdm1oMUZFUHYKTWZLc3RlRUo2VzErakM1R2RoTU4KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
const MASTERS_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHMU1Ha0NBUUF3TmpFTU1Bb0dBMVVFQ2d3RFpHVjJNUmN3RlFZRFZRUUtEQTV6ZVhOMFpXMDZiV0Z6ZEdWeQpjekVOTUFzR0ExVUVBd3dFYW1GdVpUQXFNQVVHQXl0bGNBTWhBRm9qTlhsMThZY3ltOHhwa0pEaExIUWFQMzl5ClhsSU1GTGc3WXVhOHdSellvQUF3QlFZREsyVndBMEVBejFZVWRjZVh1ckZLcTJ3U1gwSmJESGhpR0tzUGkyTHMKNUM5N3ZyTUZvM0pCT2hSdExUT2dZb3cydHdsQjkyTXV6dmI5aUp6L0g3ZXJFQkpvbWpGTkJ3PT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
