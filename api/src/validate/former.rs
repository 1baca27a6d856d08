//! Texts of hand-written validation in versions of Kubernetes before 1.36, whose errors and warnings it makes. Here is what an older
//! version says instead, a row for each difference. New rules have no row: they hold in all versions.

use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::resource::Resource;
use crate::version::Minor;
use FieldErrorKind::{Forbidden, Invalid, Required};
use serde_json::Value;

/// An error that older versions report otherwise.
struct FormerError {
    /// The last version that does.
    until: Minor,
    /// Plural of the kinds; empty: all.
    plural: &'static str,
    /// End of the path.
    field: &'static str,
    /// What 1.36 reports.
    present: (FieldErrorKind, &'static str),
    /// What the older versions report, with the value of an invalid field.
    former: (FieldErrorKind, Option<&'static str>, &'static str),
}

/// A warning that is newer than some versions.
struct NewWarning {
    /// The first version that gives it.
    since: Minor,
    plural: &'static str,
    /// The beginning of the text.
    text: &'static str,
}

const ERRORS: &[FormerError] = &[
    // The generated rules of 1.36 call a bound of zero missing.
    FormerError {
        until: Minor::V35,
        plural: "horizontalpodautoscalers",
        field: "spec.maxReplicas",
        present: (Required, "must be set and greater than 0"),
        former: (Invalid, Some("0"), "must be greater than 0"),
    },
    // The name of the internal type.
    FormerError {
        until: Minor::V33,
        plural: "",
        field: "",
        present: (Forbidden, "when `hostUsers` is false"),
        former: (Forbidden, None, "when `pod.Spec.HostUsers` is false"),
    },
];

const WARNINGS: &[NewWarning] = &[
    NewWarning { since: Minor::V36, plural: "services", text: "spec.externalIPs is deprecated" },
    NewWarning {
        since: Minor::V35,
        plural: "services",
        text: "spec.trafficDistribution: \"PreferClose\" is deprecated",
    },
    NewWarning {
        since: Minor::V34,
        plural: "services",
        text: "spec.loadBalancerIP is ignored for headless services",
    },
    NewWarning {
        since: Minor::V34,
        plural: "services",
        text: "spec.externalIPs is ignored for headless services",
    },
    NewWarning {
        since: Minor::V34,
        plural: "services",
        text: "spec.SessionAffinity is ignored for headless services",
    },
];

/// The gate without which odd spellings of addresses are accepted.
const STRICT_ADDRESSES: &str = "StrictIPCIDRValidation";

/// The gate with which a pod may choose how its volumes get their labels of SELinux.
const MOUNT_LABELS: &str = "SELinuxMount";

/// What a server without the gate accepts in addresses and blocks of addresses, as 1.36 refuses it.
const SLOPPY: &[&str] = &[
    "must not have leading 0s",
    "must not be an IPv4-mapped IPv6 address",
    "must not have leading 0s in IP or prefix length",
    "must not have an IPv4-mapped IPv6 address",
    "must not have bits set beyond the prefix length",
];

/// Kinds of the group `networking.k8s.io` whose addresses every version checks strictly.
const STRICT: [&str; 2] = ["ipaddresses", "servicecidrs"];

/// Removes the errors of spellings that the server accepts. Kinds that had strict checks from their first version on have them in all
/// versions, and so have cluster IPs, which are allocated by their values.
fn accept_sloppy_addresses(resource: &Resource, errors: &mut ErrorList) {
    let is_strict = match resource.group {
        "networking.k8s.io" => STRICT.contains(&resource.plural),
        "resource.k8s.io" => true,
        _ => false,
    };
    if is_strict || errors.is_empty() || resource.has_gate(STRICT_ADDRESSES) {
        return;
    }
    // An IPv6 address of a slice must be canonical in every version.
    let is_slice = resource.is("discovery.k8s.io", "endpointslices");
    let accepted = if is_slice { &SLOPPY[..1] } else { SLOPPY };
    errors.retain(|error| {
        let is_accepted = error.kind == Invalid && accepted.contains(&error.detail.as_str());
        !is_accepted || error.field.starts_with("spec.clusterIPs")
    });
}

/// Gives errors of 1.36 the texts of the resource's version, and removes those that the version does not report.
pub(super) fn errors(resource: &Resource, errors: &mut ErrorList) {
    accept_sloppy_addresses(resource, errors);
    let is_of = |row: &&FormerError| {
        resource.minor <= row.until && (row.plural.is_empty() || row.plural == resource.plural)
    };
    for row in ERRORS.iter().filter(is_of) {
        let (kind, value, detail) = row.former;
        errors.replace(|error| {
            let is_meant =
                (error.kind, error.detail.as_str()) == row.present && error.field.ends_with(row.field);
            is_meant.then(|| FieldError {
                kind,
                field: error.field.clone(),
                value: value.map(str::to_owned),
                detail: detail.to_owned(),
            })
        });
    }
}

/// Corrects the check of `seLinuxChangePolicy` where `SELinuxMount` is off, as it is before 1.37: `Recursive` is its only value, unless the
/// stored object has the other one.
pub(super) fn change_policy(resource: &Resource, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let policy = |object| {
        let template = resource.pod_template(object)?;
        template["spec"]["securityContext"]["seLinuxChangePolicy"].as_str()
    };
    let Some(stated) = policy(new).filter(|stated| *stated != "Recursive") else { return };
    if old.and_then(policy) == Some("MountOption") || resource.has_gate(MOUNT_LABELS) {
        return;
    }
    let members = resource.rules.pod_template.unwrap_or_default().iter().copied();
    let path: Vec<&str> = members.chain(["spec", "securityContext", "seLinuxChangePolicy"]).collect();
    let path = path.join(".");
    errors.retain(|error| error.field != path);
    errors.not_supported(&Path::new(&path), stated, &["Recursive"]);
}

/// Removes the warnings that the resource's version does not give.
pub(super) fn warnings(resource: &Resource, warnings: &mut Vec<String>) {
    let is_new = |row: &NewWarning, text: &str| {
        resource.minor < row.since && row.plural == resource.plural && text.starts_with(row.text)
    };
    warnings.retain(|text| !WARNINGS.iter().any(|row| is_new(row, text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kinds, OptIn};
    use crate::validate;
    use serde_json::json;

    fn row(minor: Minor, group: &str, version: &str, plural: &str) -> &'static Resource {
        Kinds::new(OptIn::version(minor), &[], &[]).lookup(group, version, plural).unwrap()
    }

    /// The texts of errors of a new object in each served version.
    fn texts(group: &str, version: &str, plural: &str, object: &Value) -> Vec<String> {
        let of = |minor| validate::create(row(minor, group, version, plural), object).aggregate();
        Minor::SERVED.into_iter().map(of).collect()
    }

    #[test]
    fn addresses_and_blocks_in_odd_spellings_are_refused_since_1_36() {
        let service = |member: &str, value: Value| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"type": "LoadBalancer", "selector": {"a": "b"}, "sessionAffinity": "None", "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80}], member: value}})
        };
        let policy = |block: &str| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"name": "a", "namespace": "b"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"],
                    "ingress": [{"from": [{"ipBlock": {"cidr": block}}]}]}})
        };
        let spellings = [
            ("services", service("externalIPs", json!(["010.0.0.1"]))),
            ("services", service("externalIPs", json!(["::ffff:10.0.0.1"]))),
            ("services", service("loadBalancerSourceRanges", json!(["10.0.0.1/8"]))),
            ("networkpolicies", policy("10.1.2.3/8")),
            ("networkpolicies", policy("10.0.0.0/08")),
        ];
        let faults = |minor, plural: &str, object: &Value| {
            let group = if plural == "services" { "" } else { "networking.k8s.io" };
            validate::create(row(minor, group, "v1", plural), object).aggregate()
        };
        for (plural, object) in &spellings {
            for minor in Minor::SERVED {
                let refused = faults(minor, plural, object).contains("must not");
                assert_eq!(refused, minor >= Minor::V36, "{minor} {object}");
            }
        }
        let block = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "a"},
            "spec": {"cidrs": ["10.1.2.3/8"]}});
        for minor in Minor::SERVED {
            assert!(faults(minor, "servicecidrs", &block).contains("must not have bits"), "{minor}");
            let cluster = faults(minor, "services", &service("clusterIPs", json!(["010.0.0.1"])));
            assert!(cluster.contains("must not have leading 0s"), "{minor}: {cluster}");
            let external = faults(minor, "services", &service("externalIPs", json!(["10.0.0"])));
            assert!(external.contains("must be a valid IP address"), "{minor}: {external}");
        }
    }

    #[test]
    fn an_older_version_has_the_texts_of_its_rows() {
        let scaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "c"}, "minReplicas": 1},
        });
        for (minor, text) in
            Minor::SERVED.iter().zip(texts("autoscaling", "v2", "horizontalpodautoscalers", &scaler))
        {
            let former = text.contains("spec.maxReplicas: Invalid value: 0: must be greater than 0");
            let present = text.contains("spec.maxReplicas: Required value: must be set and greater than 0");
            // 1.37 has the generated text.
            let expected = (*minor <= Minor::V35, *minor == Minor::V36);
            assert_eq!((former, present), expected, "{minor}: {text}");
        }
    }

    #[test]
    fn an_older_version_does_not_give_newer_warnings() {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"type": "ClusterIP", "externalIPs": ["1.2.3.4"], "trafficDistribution": "PreferClose"},
        });
        let found = |minor| validate::warnings(row(minor, "", "v1", "services"), &service, None);
        let has = |minor: Minor, text: &str| found(minor).iter().any(|warning| warning.contains(text));
        for minor in Minor::SERVED {
            assert_eq!(has(minor, "externalIPs is deprecated"), minor >= Minor::V36, "{minor}");
            assert_eq!(has(minor, "PreferClose"), minor >= Minor::V35, "{minor}");
        }
    }

    #[test]
    fn recursive_is_the_only_change_policy_before_1_37_unless_it_is_stored() {
        let spec = json!({
            "containers": [{"name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}],
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "securityContext": {"seLinuxChangePolicy": "MountOption"},
        });
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}, "spec": spec});
        let said = "seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"";
        for (minor, text) in Minor::SERVED.iter().zip(texts("", "v1", "pods", &pod)) {
            assert_eq!(
                text.contains(&format!("spec.securityContext.{said}")),
                *minor < Minor::V37,
                "{minor}: {text}"
            );
        }
        let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a", "namespace": "b"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}});
        for (minor, text) in Minor::SERVED.iter().zip(texts("", "v1", "podtemplates", &template)) {
            let is_refused = text.contains(&format!("template.spec.securityContext.{said}"));
            assert_eq!(is_refused, *minor < Minor::V37, "{minor}: {text}");
        }
        let row = row(Minor::V36, "", "v1", "pods");
        let kept = validate::update(row, &pod, &pod);
        assert!(kept.is_empty(), "a stored pod keeps it: {}", kept.aggregate());
        let mut other = pod;
        other["spec"]["securityContext"]["seLinuxChangePolicy"] = json!("Other");
        let text = validate::create(row, &other).aggregate();
        assert!(
            text.contains("\"Other\": supported values: \"Recursive\"") && !text.contains("MountOption"),
            "{text}"
        );
    }

    #[test]
    fn names_of_services_begin_with_a_letter_before_they_were_relaxed() {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "1a", "namespace": "b"},
            "spec": {"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "None"},
        });
        for (minor, text) in Minor::SERVED.iter().zip(texts("", "v1", "services", &service)) {
            assert_eq!(
                text.contains("a DNS-1035 label must consist of"),
                *minor < Minor::V36,
                "{minor}: {text}"
            );
        }
    }
}
