//! What each plugin makes of an object, over a small cluster.

use super::{Admission, Operation, Subject};
use crate::authn::{MASTERS, UserInfo};
use crate::authz::bootstrap;
use crate::testing::MapLookup;
use kstore_api::kind;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::{Value, json};

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

struct Case {
    cluster: Vec<Value>,
    user: UserInfo,
    operation: Operation,
    old: Option<Value>,
}

impl Case {
    fn create(cluster: impl IntoIterator<Item = Value>) -> Self {
        let cluster =
            cluster.into_iter().chain([namespace("a", "Active"), namespace("gone", "Terminating")]).collect();
        Self { cluster, user: UserInfo::new("admin", [MASTERS]), operation: Operation::Create, old: None }
    }

    /// The object after mutation and validation.
    fn admit(&self, mut object: Value) -> Result<Value, Status> {
        let row = kind::lookup_api_version(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        );
        let (namespace, name) = (meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
        let subject = Subject {
            user: &self.user,
            operation: self.operation,
            resource: row.unwrap(),
            subresource: "",
            namespace: &namespace,
            name: &name,
        };
        let admission = Admission::new(MapLookup::of(self.cluster.iter().cloned()));
        if self.operation == Operation::Delete {
            admission.validate(&subject, None, Some(&object))?;
            return Ok(object);
        }
        admission.mutate(&subject, &mut object, self.old.as_ref())?;
        admission.validate(&subject, Some(&object), self.old.as_ref())?;
        Ok(object)
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
fn who_replaces_a_pod_need_not_state_its_priority() {
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
fn a_certificate_request_says_who_asked_and_only_what_is_known_of_them() {
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
fn a_pod_tolerates_unreachable_nodes_for_five_minutes_unless_it_says_otherwise() {
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
fn nobody_grants_what_they_do_not_hold() {
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
