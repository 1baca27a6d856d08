//! Plugins with a configuration.

use super::{Case, PluginSwitches, UserInfo, configure, namespace, pod};
use crate::configured::ConfiguredPlugins;
use crate::registered::plugins;
use kstore_api::status::Status;
use serde_json::{Value, json};

/// A test case with one more plugin enabled and configured.
fn with(plugin: &'static str, document: Value, cluster: impl IntoIterator<Item = Value>) -> Case {
    let switches = PluginSwitches { enabled: [plugin].into(), ..PluginSwitches::default() };
    let mut configured = ConfiguredPlugins::default();
    configure(&mut configured, plugin, document).unwrap();
    Case { switches, configured, ..Case::create(cluster) }
}

fn security(defaults: &Value, exemptions: &Value) -> Value {
    json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": defaults, "exemptions": exemptions,
    })
}

fn text(admitted: Result<Value, Status>) -> Result<(), String> {
    admitted.map(drop).map_err(|status| status.message)
}

#[test]
fn pods_of_namespaces_without_labels_have_the_configured_level() {
    let host = |class: Option<&str>| pod(json!({ "hostNetwork": true, "runtimeClassName": class }));
    let class = |name: &str| json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name }, "handler": "h" });
    let ask = |defaults: Value, exemptions: Value, labels: Value, class_name: Option<&str>| {
        let mut own = namespace("a", "Active");
        own["metadata"]["labels"] = labels;
        let case = with("PodSecurity", security(&defaults, &exemptions), [own, class("vm")]);
        let case = Case { user: UserInfo::new("ann", [""; 0]), ..case };
        text(case.admit(host(class_name)))
    };
    let baseline = json!({ "enforce": "baseline", "enforce-version": "v1.30" });
    let refused = Err("pods \"p\" is forbidden: violates PodSecurity \"baseline:v1.30\": host namespaces (hostNetwork=true)".to_owned());
    let none = json!({});
    assert_eq!(ask(baseline.clone(), none.clone(), none.clone(), None), refused);
    assert_eq!(ask(none.clone(), none.clone(), none.clone(), None), Ok(()));
    let privileged = json!({ "pod-security.kubernetes.io/enforce": "privileged" });
    assert_eq!(ask(baseline.clone(), none.clone(), privileged, None), Ok(()), "a label takes precedence");
    let latest = json!({ "pod-security.kubernetes.io/enforce-version": "latest" });
    assert!(ask(baseline.clone(), none.clone(), latest, None).unwrap_err().contains("baseline:latest"));
    for (exemptions, class_name, is_exempt) in [
        (json!({ "namespaces": ["a"] }), None, true),
        (json!({ "namespaces": ["b"] }), None, false),
        (json!({ "usernames": ["ann"] }), None, true),
        (json!({ "usernames": ["bob"] }), None, false),
        (json!({ "runtimeClasses": ["vm"] }), Some("vm"), true),
        (json!({ "runtimeClasses": ["vm"] }), None, false),
    ] {
        let verdict = ask(baseline.clone(), exemptions.clone(), none.clone(), class_name);
        assert_eq!(verdict.is_ok(), is_exempt, "{exemptions}");
    }
}

#[test]
fn a_cluster_has_a_default_node_selector_and_allowed_labels_by_namespace() {
    let key = "scheduler.alpha.kubernetes.io/node-selector";
    let selectors = json!({ "podNodeSelectorPluginConfig": {
        "clusterDefaultNodeSelector": "zone=one", "a": "zone=one,disk=ssd,zone=one",
    }});
    let admit = |cluster: Vec<Value>, selector: Value| {
        let case = with("PodNodeSelector", selectors.clone(), cluster);
        let admitted = case.admit(pod(json!({ "nodeSelector": selector })));
        admitted.map(|pod| pod["spec"]["nodeSelector"].clone()).map_err(|status| status.message)
    };
    let annotated = |value: &str| {
        let mut own = namespace("a", "Active");
        own["metadata"]["annotations"] = json!({ key: value });
        vec![own]
    };
    assert_eq!(admit(vec![], json!({ "disk": "ssd" })), Ok(json!({ "zone": "one", "disk": "ssd" })));
    assert_eq!(admit(annotated(""), json!({})), Ok(json!({})), "the annotation replaces the default");
    let conflict =
        "pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector";
    assert_eq!(admit(vec![], json!({ "zone": "two" })), Err(conflict.to_owned()));
    let not_allowed =
        "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist";
    assert_eq!(admit(vec![], json!({ "x": "y" })), Err(not_allowed.to_owned()));
    assert_eq!(admit(annotated("zone=two"), json!({})), Err(not_allowed.to_owned()));
}

#[test]
fn a_cluster_has_default_and_allowed_tolerations() {
    let document = json!({
        "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration",
        "default": [{ "key": "a", "operator": "Exists" }],
        "whitelist": [{ "key": "a", "operator": "Exists" }, { "operator": "Exists", "effect": "NoExecute" }],
    });
    let case = with("PodTolerationRestriction", document, []);
    let admitted = case.admit(pod(json!({}))).unwrap();
    let all = admitted["spec"]["tolerations"].as_array().unwrap();
    assert!(all.contains(&json!({ "key": "a", "operator": "Exists" })), "{all:?}");
    let refused =
        case.admit(pod(json!({ "tolerations": [{ "key": "b", "operator": "Exists" }] }))).unwrap_err();
    assert!(refused.message.ends_with("conflict with its namespace whitelist"), "{refused}");
}

/// Checks that a configuration of a plugin is refused with a text.
fn check_refused<const N: usize>(cases: [(&str, Value, &str); N]) {
    for (plugin, document, expected) in cases {
        let refused = configure(&mut ConfiguredPlugins::default(), plugin, document).unwrap_err().to_string();
        assert!(refused.contains(expected), "{plugin}: {refused}");
    }
}

#[test]
fn only_plugins_with_a_configuration_can_be_configured() {
    check_refused([
        ("NoSuchPlugin", json!({}), "admission plugin \"NoSuchPlugin\" is unknown"),
        ("CertificateRequester", json!({}), "is unknown"),
        ("NamespaceLifecycle", json!({}), "admission plugin NamespaceLifecycle takes no configuration"),
        (
            "ValidatingAdmissionWebhook",
            json!({}),
            "expected apiserver.config.k8s.io/v1 WebhookAdmissionConfiguration",
        ),
    ]);
    let mut twice = ConfiguredPlugins::default();
    let mut again = || configure(&mut twice, "PodSecurity", security(&json!({}), &json!({})));
    again().unwrap();
    let refused = again().unwrap_err();
    assert_eq!(refused.to_string(), "admission plugin PodSecurity is configured twice");
}

#[test]
fn limited_resources_of_quotas_are_read_in_each_version() {
    let limited = json!([{
        "resource": "pods", "matchContains": ["cpu"],
        "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}],
    }]);
    for (version, kind) in [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ] {
        let document = json!({"apiVersion": version, "kind": kind, "limitedResources": limited});
        let mut plugins = ConfiguredPlugins::default();
        configure(&mut plugins, "ResourceQuota", document.clone()).unwrap();
        let read = plugins.get("ResourceQuota").unwrap().limited_resources().unwrap();
        assert!(read[0].concerns("", "pods") && read[0].match_contains == ["cpu"]);
        assert_eq!(read[0].match_scopes[0].to_string(), "{PriorityClass In [a]}");
        let twice = configure(&mut plugins, "ResourceQuota", document).unwrap_err().to_string();
        assert_eq!(twice, "admission plugin ResourceQuota is configured twice");
    }
    let of = |members: Value| {
        let mut document =
            json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"});
        document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        document
    };
    check_refused([
        ("ResourceQuota", json!({}), "expected apiserver.config.k8s.io/v1 ResourceQuotaConfiguration"),
        ("ResourceQuota", of(json!({"limited": []})), "unknown field `limited`"),
        (
            "ResourceQuota",
            of(json!({"limitedResources": [{}]})),
            "limitedResources[0].resource: Required value",
        ),
    ]);
}

#[test]
fn configurations_of_pod_security_that_cannot_be_used_say_why() {
    let kind = "PodSecurityConfiguration";
    let version = format!("expected pod-security.admission.config.k8s.io/v1 {kind}, found \"v1\" {kind:?}");
    let level = "defaults.enforce: must be one of privileged, baseline, restricted, found \"strict\"";
    let minor = "defaults.warn-version: must be \"latest\" or \"v1.x\", found \"1\"";
    let defaults = |defaults: Value| security(&defaults, &json!({}));
    let exemptions = |exemptions: Value| security(&json!({}), &exemptions);
    let cases = [
        (json!([]), "admission plugin PodSecurity: expected an object"),
        (json!({ "apiVersion": "v1", "kind": kind }), &version),
        (defaults(json!({ "level": "x" })), "unknown field `level`"),
        (defaults(json!({ "enforce": "strict" })), level),
        (defaults(json!({ "warn-version": "1" })), minor),
        (exemptions(json!({ "usernames": [""] })), "exemptions.usernames[0]: must not be empty"),
        (exemptions(json!({ "namespaces": ["a", "a"] })), "exemptions.namespaces[1]: Duplicate value: \"a\""),
    ];
    check_refused(cases.map(|(document, expected)| ("PodSecurity", document, expected)));
}

#[test]
fn configurations_that_cannot_be_used_say_why() {
    let (selector, limit, restriction) = ("PodNodeSelector", "EventRateLimit", "PodTolerationRestriction");
    let of = |group: &str, member: &str, item: Value| json!({ "apiVersion": format!("{group}.admission.k8s.io/v1alpha1"), "kind": "Configuration", member: [item] });
    let event = |item: Value| of("eventratelimit", "limits", item);
    let toleration = |item: Value| of("podtolerationrestriction", "default", item);
    let negative = json!({ "type": "User", "burst": 1, "qps": 1, "cacheSize": -1 });
    check_refused([
        (selector, json!({}), "missing field `podNodeSelectorPluginConfig`"),
        (
            selector,
            json!({ "podNodeSelectorPluginConfig": { "a": "x" } }),
            "podNodeSelectorPluginConfig.a: invalid selector: [x]",
        ),
        (limit, event(json!({ "type": "Pod" })), "limits[0].type: \"Pod\" is not one of"),
        (limit, event(json!({ "type": "Server", "qps": 1 })), "limits[0].burst: must be positive, found 0"),
        (limit, event(json!({ "type": "Server", "burst": 1 })), "limits[0].qps: must be positive, found 0"),
        (limit, event(negative), "limits[0].cacheSize: must not be negative, found -1"),
        (limit, of("eventratelimit", "limit", json!({})), "unknown field `limit`"),
        (
            restriction,
            toleration(json!({ "operator": "In" })),
            "default[0].operator: expected Equal or Exists",
        ),
        (restriction, toleration(json!({ "effect": "Never" })), "default[0].effect: expected NoSchedule"),
        (restriction, toleration(json!({ "keys": "a" })), "unknown field `keys`"),
    ]);
}

#[test]
fn plugins_that_need_a_configuration_refuse_to_run_without_one() {
    for (plugin, kind) in [("EventRateLimit", "Event"), ("ImagePolicyWebhook", "Pod")] {
        let switches = PluginSwitches { enabled: [plugin].into(), ..PluginSwitches::default() };
        let checked = ConfiguredPlugins::default().check(&switches).unwrap_err().to_string();
        assert!(checked.starts_with(&format!("admission plugin {plugin} is enabled and needs")), "{checked}");
        assert!(ConfiguredPlugins::default().check(&PluginSwitches::default()).is_ok());
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "p", "namespace": "a" }, "spec": {} });
        let refused = Case { switches, ..Case::create([]) }.admit(object).unwrap_err();
        assert_eq!(refused.code, 403, "{plugin}: {refused}");
    }
}

#[test]
fn only_names_of_kubernetes_plugins_are_listed() {
    let known: Vec<&str> = plugins().collect();
    for own in ["RBACEscalation", "CertificateRequester"] {
        assert!(!known.contains(&own), "{own}");
    }
    for name in ["NamespaceAutoProvision", "ClusterTrustBundleAttest", "EventRateLimit", "ImagePolicyWebhook"]
    {
        assert!(known.contains(&name), "{name}");
    }
    let position = |name: &str| known.iter().position(|known| *known == name).unwrap();
    assert!(position("NamespaceAutoProvision") < position("NamespaceLifecycle"));
    assert!(position("CertificateSigning") < position("ClusterTrustBundleAttest"));
}
