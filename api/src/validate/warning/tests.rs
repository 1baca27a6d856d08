//! Tests of warnings by kind.

use super::warnings;
use crate::kind;
use crate::object::text;
use serde_json::{Value, json};

fn said(object: &Value, old: Option<&Value>) -> Vec<String> {
    let row = kind::lookup_api_version(text(&object["apiVersion"]), text(&object["kind"])).unwrap();
    warnings(row, object, old)
}

#[test]
fn kinds_with_one_warning_report_it() {
    let meta = json!({"name": "a"});
    let old_label = json!({"beta.kubernetes.io/os": "linux"});
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"externalID": "e", "configSource": {}, "podCIDRs": ["2001:DB8::/64"]}}),
            vec![
                "spec.configSource: the feature is removed",
                "spec.externalID: this field is deprecated, and is unused by Kubernetes",
                "spec.podCIDRs[0]: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
            ],
        ),
        (
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "endpoints": [{"addresses": ["::1", "0::2"]}]}),
            vec![
                "endpoints[0].addresses[1]: IPv6 address \"0::2\" should be in RFC 5952 canonical format (\"::2\")",
            ],
        ),
        (
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "endpoints": [{"addresses": ["0::2"]}],
                "metadata": {"name": "a", "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}}),
            vec![],
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta,
                "spec": {"egress": [{}, {"to": [{}, {"ipBlock": {"cidr": "0::/8", "except": ["0::/16"]}}]}]}}),
            vec![
                "spec.egress[1].to[1].ipBlock.cidr: IPv6 CIDR value \"0::/8\" should be in RFC 5952 canonical format (\"::/8\")",
                "spec.egress[1].to[1].ipBlock.except[0]: IPv6 CIDR value \"0::/16\" should be in RFC 5952 canonical format (\"::/16\")",
            ],
        ),
        (
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": meta, "scheduling": {"nodeSelector": old_label}}),
            vec!["scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead"],
        ),
        (
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": {"driver": "A.b"}}),
            vec!["spec.driver: driver names should be lowercase; \"A.b\" contains uppercase characters"],
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta,
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os"}]}]}),
            vec![
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            ],
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": meta,
                "nodeTopology": {"matchLabels": old_label, "matchExpressions": [{"key": "beta.kubernetes.io/os"}]}}),
            vec![
                "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            ],
        ),
    ];
    for (object, want) in cases {
        assert_eq!(said(&object, None), want, "{object}");
        assert_eq!(said(&object, Some(&object)), want, "again, when it is written again");
    }
}

#[test]
fn repeated_warnings_are_sent_once() {
    let meta = |generation: u64, annotations: Value| json!({"name": "a", "generation": generation, "annotations": annotations});
    let odd = json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}});
    let template = json!({"template": {"spec": odd}});
    let of = |api_version: &str, kind: &str, spec: &Value| json!({"apiVersion": api_version, "kind": kind, "metadata": meta(1, json!({})), "spec": spec});
    let objects = [
        (of("v1", "Pod", &odd), false),
        (of("v1", "ReplicationController", &template), true),
        (of("apps/v1", "Deployment", &template), true),
        (of("apps/v1", "ReplicaSet", &template), true),
        (of("apps/v1", "StatefulSet", &template), true),
        (of("batch/v1", "Job", &template), true),
        (of("batch/v1", "CronJob", &json!({"jobTemplate": {"spec": template}})), true),
        (
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta(1, json!({})), "template": {"spec": odd}}),
            true,
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta(1, json!({})), "spec": {"tokenRequests": [{"audience": ""}]}}),
            false,
        ),
        (
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(1, json!({"kubernetes.io/enforce-mountable-secrets": "true"}))}),
            false,
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta(1, json!({"kubernetes.io/ingress.class": "a"})), "spec": {}}),
            false,
        ),
    ];
    for (object, when_changed) in objects {
        let mut changed = object.clone();
        changed["metadata"]["generation"] = json!(2);
        let counts = [None, Some(&object)].map(|old| said(&object, old).len());
        assert_eq!(counts, [1, 0], "{object}");
        assert_eq!(said(&changed, Some(&object)).len(), usize::from(when_changed), "{object}");
    }
    let set = |generation: &str| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": template,
        "metadata": meta(1, json!({"deprecated.daemonset.template.generation": generation}))})
    };
    assert_eq!([said(&set("1"), Some(&set("1"))).len(), said(&set("2"), Some(&set("1"))).len()], [0, 1]);
    let cron = of("batch/v1", "CronJob", &json!({"schedule": "TZ=UTC 0 * * * *"}));
    assert_eq!([said(&cron, None).len(), said(&cron, Some(&cron)).len()], [0, 1]);
    let claims = of(
        "apps/v1",
        "StatefulSet",
        &json!({"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "1m"}}}}]}),
    );
    let text = "resources.requests[storage]: fractional byte value \"1m\" is invalid, must be an integer";
    assert_eq!(said(&claims, None), [format!("spec.volumeClaimTemplates[0].{text}")]);
    assert_eq!(said(&claims, Some(&claims)), [format!("spec.volumeClaimTemplates[0].Spec.{text}")]);
}
