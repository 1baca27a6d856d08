//! Empty texts in fields that are pointers: a value that Kubernetes refuses, and not absence, which has a default.

use super::complete;
use crate::schema::{self, decode};
use crate::strategy;
use crate::version::Minor;
use serde_json::{Value, json};

/// Errors of creating an object that was decoded and defaulted.
fn errors_of(mut object: Value) -> Vec<String> {
    let row = super::row_of(Minor::DEFAULT, &object).unwrap();
    let ty = schema::of(row.group, row.version, row.kind).unwrap();
    decode::normalize(&mut object, ty, decode::Mode::Whole).unwrap();
    complete(Minor::DEFAULT, &mut object);
    strategy::prepare_create(row, &mut object);
    crate::validate::create(row, &object).iter().map(ToString::to_string).collect()
}

fn put(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"))[last] = value;
    object
}

#[test]
fn empty_texts_of_pointers_are_refused_and_not_defaulted() {
    let pods = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    let always = put(&pods, "/spec/restartPolicy", json!("Always"));
    let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://a"}, "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]});
    let admission = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": hook["rules"]}}});
    let binding = json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], "matchResources": {"resourceRules": hook["rules"]}}});
    let mutating = json!({"apiVersion": admission, "kind": "MutatingWebhookConfiguration", "metadata": {"name": "w"}, "webhooks": [hook]});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": {"template": pods}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}});
    let network = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "e"}, "addressType": "IPv4",
        "endpoints": [], "ports": [{"port": 1}]});
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"}, "provisioner": "p"});
    let priority = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1});
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {}});
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "A", "name": "a", "apiVersion": "apps/v1"}, "behavior": {"scaleUp": {}}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": always, "strategy": {"rollingUpdate": {}}}});
    let unsupported = "Unsupported value: \"\"";
    let percent = "Invalid value: \"\": a valid percent";
    let cases = [
        (&mutating, "/webhooks/0/failurePolicy", unsupported),
        (&mutating, "/webhooks/0/matchPolicy", unsupported),
        (&mutating, "/webhooks/0/reinvocationPolicy", unsupported),
        (&mutating, "/webhooks/0/rules/0/scope", unsupported),
        (&policy, "/spec/failurePolicy", unsupported),
        (&policy, "/spec/matchConstraints/matchPolicy", unsupported),
        (&policy, "/spec/matchConstraints/resourceRules/0/scope", unsupported),
        (&binding, "/spec/matchResources/matchPolicy", unsupported),
        (&claim, "/spec/volumeMode", unsupported),
        (&job, "/spec/completionMode", unsupported),
        (&job, "/spec/podReplacementPolicy", unsupported),
        (&class, "/volumeBindingMode", unsupported),
        (&service, "/spec/internalTrafficPolicy", unsupported),
        (&network, "/spec/ingress/0/ports/0/protocol", unsupported),
        (&slice, "/ports/0/protocol", unsupported),
        (&priority, "/preemptionPolicy", "Required value"),
        (&driver, "/spec/fsGroupPolicy", unsupported),
        (&scaler, "/spec/behavior/scaleUp/selectPolicy", unsupported),
        (&deployment, "/spec/strategy/rollingUpdate/maxSurge", percent),
        (&deployment, "/spec/strategy/rollingUpdate/maxUnavailable", percent),
    ];
    for (object, pointer, want) in cases {
        assert_eq!(errors_of(object.clone()), [""; 0], "{pointer}: the object without it");
        let errors = errors_of(put(object, pointer, json!("")));
        assert!(errors.iter().any(|error| error.contains(want)), "{pointer}: {errors:?}");
    }
    // The one such text that is legal.
    assert_eq!(errors_of(put(&class, "/reclaimPolicy", json!(""))), [""; 0]);
    // Fields that are no pointers have their defaults.
    for (object, pointer) in
        [(&service, "/spec/type"), (&service, "/spec/sessionAffinity"), (&deployment, "/spec/strategy/type")]
    {
        assert_eq!(errors_of(put(object, pointer, json!(""))), [""; 0], "{pointer}");
    }
}

/// Absent policies have defaults; an empty list is a list without policies.
#[test]
fn an_empty_list_of_scaling_policies_is_refused() {
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "A", "name": "a", "apiVersion": "apps/v1"},
            "behavior": {"scaleUp": {"policies": []}, "scaleDown": {}}}});
    assert_eq!(
        errors_of(scaler),
        ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]
    );
}

/// An absent or empty template is one whose members have their defaults: only what is missing is an error.
#[test]
fn absent_templates_have_defaults() {
    let owners = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "CronJob"),
    ];
    for (version, kind) in owners {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}});
        if kind == "CronJob" {
            object["spec"] = json!({"schedule": "* * * * *"});
        }
        let errors = errors_of(object);
        assert!(
            errors.iter().any(|error| error.contains("spec.containers: Required value")),
            "{kind}: {errors:?}"
        );
        for defaulted in ["terminationGracePeriodSeconds", "dnsPolicy: Required"] {
            assert!(!errors.iter().any(|error| error.contains(defaulted)), "{kind}: {errors:?}");
        }
    }
}

#[test]
fn claim_templates_of_one_name_are_one_volume() {
    let template = |name: &str| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}});
    let set = |claims: Value| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": {"serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}}, "volumeClaimTemplates": claims, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}})
    };
    assert_eq!(errors_of(set(json!([template("v"), template("v")]))), [""; 0]);
    let nameless = errors_of(set(json!([template(""), template("v")])));
    let want = [
        "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        "spec.template.spec.volumes[0].name: Required value",
    ];
    assert_eq!(nameless, want);
}
