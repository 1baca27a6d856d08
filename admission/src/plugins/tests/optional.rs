//! Plugins that are disabled by default.

use super::{Case, Operation, PluginSwitches, UserInfo, namespace, pod};
use kstore_api::status::Status;
use serde_json::{Value, json};

/// A test case with one more plugin enabled.
fn with(plugin: &'static str, cluster: impl IntoIterator<Item = Value>) -> Case {
    let switches = PluginSwitches { enabled: [plugin].into(), ..PluginSwitches::default() };
    Case { switches, ..Case::create(cluster) }
}

fn text(admitted: Result<Value, Status>) -> Result<(), String> {
    admitted.map(|_| ()).map_err(|status| status.message)
}

/// The namespace of the test cases, with an annotation.
fn annotated(key: &str, value: &str) -> Value {
    let mut namespace = namespace("a", "Active");
    namespace["metadata"]["annotations"] = json!({ key: value });
    namespace
}

#[test]
fn optional_plugins_run_only_if_enabled() {
    let containers = json!({ "containers": [{ "name": "c", "image": "i", "imagePullPolicy": "Never" }] });
    let policy = |case: &Case| {
        let admitted = case.admit(pod(containers.clone())).unwrap();
        admitted["spec"]["containers"][0]["imagePullPolicy"].clone()
    };
    assert_eq!(policy(&Case::create([])), "Never");
    assert_eq!(policy(&with("AlwaysPullImages", [])), "Always");
    let admitted = with("AlwaysPullImages", []).admit(pod(containers.clone())).unwrap();
    let without = Case::create([]).admit(pod(containers.clone())).unwrap();
    assert_eq!(admitted["spec"]["volumes"], without["spec"]["volumes"]);
    assert!(admitted["spec"].get("initContainers").is_none());
    assert_eq!(policy(&with("AlwaysAdmit", [])), "Never");
    assert_eq!(
        text(with("AlwaysDeny", []).admit(pod(containers.clone()))).unwrap_err(),
        "pods \"p\" is forbidden: admission control is denying all modifications"
    );
    let old = Some(pod(containers.clone()));
    let update = Case { operation: Operation::Update, old, ..with("AlwaysPullImages", []) };
    assert_eq!(policy(&update), "Never", "no new image");
}

#[test]
fn the_node_selector_of_a_namespace_applies_to_its_pods() {
    let key = "scheduler.alpha.kubernetes.io/node-selector";
    let case = with("PodNodeSelector", [annotated(key, "a=b, c=d")]);
    let admitted = case.admit(pod(json!({ "nodeSelector": { "x": "y", "a": "b" } }))).unwrap();
    assert_eq!(admitted["spec"]["nodeSelector"], json!({ "a": "b", "c": "d", "x": "y" }));
    assert_eq!(
        text(case.admit(pod(json!({ "nodeSelector": { "a": "z" } })))).unwrap_err(),
        "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector"
    );
    let wrong = with("PodNodeSelector", [annotated(key, "a")]).admit(pod(json!({}))).unwrap_err();
    assert_eq!((wrong.code, wrong.message.as_str()), (500, "invalid selector: [a]"));
}

#[test]
fn changed_owner_references_require_permission_to_delete_and_blocking_ones_to_finalize_owners() {
    let rules = |rules: Value| {
        let rbac = |kind: &str, extra: Value| {
            let mut object = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": "x" } });
            object.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            object
        };
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x" });
        let binding = json!({ "roleRef": role, "subjects": [{ "kind": "User", "name": "ann" }] });
        [rbac("ClusterRole", json!({ "rules": rules })), rbac("ClusterRoleBinding", binding)]
    };
    let owned = |kind: &str, blocks: bool| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "a",
            "ownerReferences": [{ "apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": blocks }] } })
    };
    let ask = |cluster: Value, object: Value, old: Option<Value>| {
        let user = UserInfo::new("ann", [""; 0]);
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let case =
            Case { user, operation, old, ..with("OwnerReferencesPermissionEnforcement", rules(cluster)) };
        text(case.admit(object))
            .map_err(|text| text.trim_start_matches("configmaps \"c\" is forbidden: ").to_owned())
    };
    let delete = json!({ "verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"] });
    let finalize = json!({ "verbs": ["update"], "apiGroups": [""], "resources": ["pods/finalizers"] });
    let (none, one, both) = (json!([]), json!([delete]), json!([delete, finalize]));
    let free =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "a" } });
    assert_eq!(
        ask(none.clone(), owned("Pod", false), Some(free)),
        Err("cannot set an ownerRef on a resource you can't delete: , <nil>".to_owned())
    );
    assert_eq!(ask(none.clone(), owned("Pod", false), None), Ok(()), "a new object");
    assert!(
        ask(none.clone(), owned("Pod", true), None).unwrap_err().contains("set finalizers"),
        "a new object"
    );
    assert_eq!(ask(none, owned("Pod", false), Some(owned("Pod", false))), Ok(()), "unchanged");
    assert_eq!(ask(one.clone(), owned("Pod", false), None), Ok(()));
    assert_eq!(
        ask(one.clone(), owned("Pod", true), None),
        Err("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>".to_owned())
    );
    assert!(ask(one.clone(), owned("Pod", true), Some(owned("Pod", false))).is_err(), "it blocks now");
    assert_eq!(ask(one, owned("Pod", true), Some(owned("Pod", true))), Ok(()));
    assert_eq!(ask(both.clone(), owned("Pod", true), None), Ok(()));
    assert!(
        ask(both, owned("Thing", true), None)
            .unwrap_err()
            .contains("APIVersion v1 Kind Thing: no matches for kind")
    );
}

#[test]
fn services_get_no_new_external_addresses() {
    let service = |addresses: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s", "namespace": "a" }, "spec": { "externalIPs": addresses } });
    let ask = |old: Option<Value>, new: Value| {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        text(Case { operation, old, ..with("DenyServiceExternalIPs", []) }.admit(new))
    };
    let two = service(json!(["1.2.3.4", "1.2.3.5"]));
    assert_eq!(ask(None, service(json!([]))), Ok(()));
    assert_eq!(
        ask(None, two.clone()),
        Err("services \"s\" is forbidden: Use of external IPs is denied by admission control.".to_owned())
    );
    assert_eq!(ask(Some(two.clone()), service(json!(["1.2.3.5"]))), Ok(()));
    assert!(ask(Some(service(json!(["1.2.3.5"]))), two).is_err());
}

#[test]
fn required_anti_affinity_is_limited_to_hosts() {
    let ask = |key: &str| {
        let term = json!({ "topologyKey": key });
        let spec = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } });
        text(with("LimitPodHardAntiAffinityTopology", []).admit(pod(spec)))
    };
    assert_eq!(ask("kubernetes.io/hostname"), Ok(()));
    assert_eq!(
        ask("zone"),
        Err("pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed".to_owned())
    );
}

#[test]
fn pods_tolerate_taints_of_their_extended_resources() {
    let requests = json!({ "example.com/gpu": "1", "cpu": "1", "kubernetes.io/x": "1" });
    let spec = json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] });
    let admitted = with("ExtendedResourceToleration", []).admit(pod(spec)).unwrap();
    let tolerations = admitted["spec"]["tolerations"].as_array().unwrap();
    let own: Vec<_> = tolerations.iter().filter(|toleration| toleration["effect"] == "NoSchedule").collect();
    assert_eq!(own, [&json!({ "key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule" })]);
}

#[test]
fn a_namespace_sets_default_and_allowed_tolerations() {
    let wide = json!([{ "key": "a", "operator": "Exists" }]).to_string();
    let defaults = with(
        "PodTolerationRestriction",
        [annotated("scheduler.alpha.kubernetes.io/defaultTolerations", &wide)],
    );
    let admitted = defaults.admit(pod(json!({}))).unwrap();
    assert!(
        admitted["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .contains(&json!({ "key": "a", "operator": "Exists" }))
    );
    let burst = json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] });
    let admitted = defaults.admit(pod(burst)).unwrap();
    let keys = admitted["spec"]["tolerations"].as_array().unwrap().iter().map(|one| one["key"].clone());
    assert!(keys.into_iter().any(|key| key == "node.kubernetes.io/memory-pressure"));
    let any = json!([{ "key": "a", "operator": "Exists" }, { "operator": "Exists", "effect": "NoExecute" }])
        .to_string();
    let bounded = with(
        "PodTolerationRestriction",
        [annotated("scheduler.alpha.kubernetes.io/tolerationsWhitelist", &any)],
    );
    assert!(
        bounded
            .admit(pod(json!({ "tolerations": [{ "key": "a", "operator": "Equal", "value": "v" }] })))
            .is_ok()
    );
    let refused =
        bounded.admit(pod(json!({ "tolerations": [{ "key": "b", "operator": "Exists" }] }))).unwrap_err();
    assert_eq!(refused.code, 500);
    assert!(refused.message.ends_with("conflict with its namespace whitelist"), "{refused}");
}

#[test]
fn a_namespace_must_exist_even_without_its_lifecycle() {
    let switches =
        PluginSwitches { enabled: ["NamespaceExists"].into(), disabled: ["NamespaceLifecycle"].into() };
    let case = Case { switches, ..Case::create([]) };
    let map = |namespace: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": namespace } });
    assert!(case.admit(map("a")).is_ok());
    assert_eq!(case.admit(map("b")).unwrap_err().message, "namespaces \"b\" not found");
}

#[test]
fn pods_with_chosen_users_groups_or_selinux_options_are_refused() {
    let ask = |spec: Value| text(with("SecurityContextDeny", []).admit(pod(spec)));
    let of_pod = |context: Value| json!({ "containers": [], "securityContext": context });
    let of_container =
        |list: &str, context: Value| json!({ list: [{ "name": "a" }, { "securityContext": context }] });
    let (user, options) = (json!({ "runAsUser": 0 }), json!({ "seLinuxOptions": {} }));
    for (spec, field) in [
        (
            of_pod(json!({ "supplementalGroups": [], "fsGroup": 1 })),
            "pod.Spec.SecurityContext.SupplementalGroups",
        ),
        (of_pod(options.clone()), "pod.Spec.SecurityContext.SELinuxOptions"),
        (of_pod(user.clone()), "pod.Spec.SecurityContext.RunAsUser"),
        (of_pod(json!({ "fsGroup": 1 })), "pod.Spec.SecurityContext.FSGroup"),
        (of_container("containers", options), "SecurityContext.SELinuxOptions"),
        (of_container("initContainers", user.clone()), "SecurityContext.RunAsUser"),
    ] {
        assert_eq!(
            ask(spec.clone()),
            Err(format!("pods \"p\" is forbidden: {field} is forbidden")),
            "{spec}"
        );
        assert_eq!(text(Case::create([]).admit(pod(spec))), Ok(()), "the plugin is off");
    }
    for spec in [
        of_pod(json!({ "runAsNonRoot": true, "runAsGroup": 1 })),
        of_container("containers", json!({ "privileged": true })),
        of_container("ephemeralContainers", user.clone()),
    ] {
        assert_eq!(ask(spec.clone()), Ok(()), "{spec}");
    }
    let update =
        |subresource| Case { operation: Operation::Update, subresource, ..with("SecurityContextDeny", []) };
    let old = |case: Case| Case { old: Some(pod(of_pod(user.clone()))), ..case };
    assert!(old(update("")).admit(pod(of_pod(user.clone()))).is_err());
    assert!(old(update("status")).admit(pod(of_pod(user.clone()))).is_ok());
}
