//! Checks that the resource table is unique, sorted and complete, and that its keys and verbs are those of
//! Kubernetes.

use super::*;
use crate::name::NameRule;
use crate::resource::DefaultPropagation;
use std::collections::BTreeSet;

#[test]
fn rows_are_unique_by_plural_and_by_kind() {
    let plurals: BTreeSet<_> = RESOURCES.iter().map(|row| (row.group, row.version, row.plural)).collect();
    let kinds: BTreeSet<_> = RESOURCES.iter().map(|row| (row.group, row.version, row.kind)).collect();
    assert_eq!((plurals.len(), kinds.len()), (RESOURCES.len(), RESOURCES.len()));
}

#[test]
fn rows_are_grouped_by_version_and_sorted_by_plural_and_verb() {
    for pair in RESOURCES.windows(2) {
        if (pair[0].group, pair[0].version) == (pair[1].group, pair[1].version) {
            assert!(pair[0].plural < pair[1].plural, "{} before {}", pair[0].plural, pair[1].plural);
        }
    }
    let mut seen = BTreeSet::new();
    for group in groups() {
        assert!(seen.insert(group), "group {group} is split");
    }
    for row in RESOURCES {
        assert!(row.verbs.is_sorted(), "{}", row.plural);
        assert!(row.subresources.is_sorted_by_key(|s| s.name), "{}", row.plural);
        assert!(row.subresources.iter().all(|s| s.verbs.is_sorted()), "{}", row.plural);
    }
}

#[test]
fn groups_and_versions_are_in_order_of_preference() {
    let groups: Vec<_> = groups().collect();
    assert_eq!(&groups[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(versions("autoscaling").collect::<Vec<_>>(), ["v2", "v1"]);
}

#[test]
fn table_has_every_built_in_kind() {
    let wanted = "
        v1 Pod Service ConfigMap Secret Endpoints Event ServiceAccount Namespace Node PersistentVolume PersistentVolumeClaim
           ReplicationController ResourceQuota LimitRange PodTemplate Binding ComponentStatus
        apps/v1 Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision
        batch/v1 Job CronJob
        autoscaling/v1 HorizontalPodAutoscaler
        autoscaling/v2 HorizontalPodAutoscaler
        networking.k8s.io/v1 Ingress IngressClass NetworkPolicy IPAddress ServiceCIDR
        policy/v1 PodDisruptionBudget
        rbac.authorization.k8s.io/v1 Role RoleBinding ClusterRole ClusterRoleBinding
        storage.k8s.io/v1 StorageClass CSIDriver CSINode CSIStorageCapacity VolumeAttachment VolumeAttributesClass
        admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy
           ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
        apiextensions.k8s.io/v1 CustomResourceDefinition
        certificates.k8s.io/v1 CertificateSigningRequest
        coordination.k8s.io/v1 Lease
        discovery.k8s.io/v1 EndpointSlice
        events.k8s.io/v1 Event
        node.k8s.io/v1 RuntimeClass
        scheduling.k8s.io/v1 PriorityClass
        apiregistration.k8s.io/v1 APIService
        resource.k8s.io/v1 DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
        flowcontrol.apiserver.k8s.io/v1 FlowSchema PriorityLevelConfiguration
        authentication.k8s.io/v1 TokenReview SelfSubjectReview
        authorization.k8s.io/v1 SubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview LocalSubjectAccessReview";
    let (mut api_version, mut count) = ("", 0);
    for word in wanted.split_whitespace() {
        if word.starts_with(|c: char| c.is_ascii_lowercase()) {
            api_version = word;
        } else {
            let row = lookup_api_version(api_version, word).unwrap_or_else(|| panic!("{api_version} {word}"));
            assert_eq!(row.api_version(), api_version);
            count += 1;
        }
    }
    assert_eq!(count, RESOURCES.len(), "the list above names every row");
}

#[test]
fn short_names_match_kubectl_and_are_unambiguous() {
    let wanted = "po=pods svc=services cm=configmaps ep=endpoints ev=events sa=serviceaccounts ns=namespaces no=nodes
        pv=persistentvolumes pvc=persistentvolumeclaims rc=replicationcontrollers quota=resourcequotas limits=limitranges
        cs=componentstatuses deploy=deployments rs=replicasets sts=statefulsets ds=daemonsets cj=cronjobs
        hpa=horizontalpodautoscalers ing=ingresses netpol=networkpolicies ip=ipaddresses pdb=poddisruptionbudgets
        sc=storageclasses vac=volumeattributesclasses csr=certificatesigningrequests
        crd=customresourcedefinitions crds=customresourcedefinitions pc=priorityclasses";
    let wanted: BTreeSet<_> = wanted.split_whitespace().map(|w| w.split_once('=').unwrap()).collect();
    let have: BTreeSet<_> =
        RESOURCES.iter().flat_map(|r| r.short_names.iter().map(|short| (*short, r.plural))).collect();
    assert_eq!(have, wanted);
}

#[test]
fn storage_keys_have_the_layout_of_kubernetes() {
    let key = |g, p: &str| lookup(g, "v1", p).unwrap().storage_key("ns", "x");
    assert_eq!(key("", "pods"), "/registry/pods/ns/x");
    assert_eq!(key("", "services"), "/registry/services/specs/ns/x");
    assert_eq!(key("", "endpoints"), "/registry/services/endpoints/ns/x");
    assert_eq!(key("", "nodes"), "/registry/minions/x");
    assert_eq!(key("networking.k8s.io", "ingresses"), "/registry/ingress/ns/x");
    assert_eq!(key("events.k8s.io", "events"), "/registry/events/ns/x");
    let pods = lookup("", "v1", "pods").unwrap();
    assert_eq!(pods.storage_prefix(""), "/registry/pods/");
    assert_eq!(pods.storage_prefix("ns"), "/registry/pods/ns/");
    assert_eq!(pods.parse_key("/registry/pods/ns/x"), Some(("ns", "x")));
    assert_eq!(pods.parse_key("/registry/podtemplates/ns/x"), None);
}

#[test]
fn storage_version_rows_store_their_own_version() {
    for row in RESOURCES.iter().filter(|r| r.storage_version.is_some()) {
        let target = row.storage_row();
        assert!(target.storage_version.is_none());
        assert_eq!((target.storage, target.kind), (row.storage, row.kind));
    }
    let prefixes: BTreeSet<_> = stored().map(|r| r.storage).collect();
    assert_eq!(prefixes.len(), stored().count(), "no two kinds share a prefix by accident");
}

/// Plural, scope, category (`-`: none) and subresources of every row; a line that ends in a colon starts a
/// version.
const SHAPES: &str = "
v1:
bindings N -
componentstatuses C -
configmaps N -
endpoints N -
events N -
limitranges N -
namespaces C - finalize status
nodes C - proxy status
persistentvolumeclaims N - status
persistentvolumes C - status
pods N all attach binding ephemeralcontainers eviction exec log portforward proxy resize status
podtemplates N -
replicationcontrollers N all scale status
resourcequotas N - status
secrets N -
serviceaccounts N - token
services N all proxy status
apps/v1:
controllerrevisions N -
daemonsets N all status
deployments N all scale status
replicasets N all scale status
statefulsets N all scale status
batch/v1:
cronjobs N all status
jobs N all status
autoscaling/v1:
horizontalpodautoscalers N all status
autoscaling/v2:
horizontalpodautoscalers N all status
networking.k8s.io/v1:
ingressclasses C -
ingresses N - status
ipaddresses C -
networkpolicies N -
servicecidrs C - status
policy/v1:
poddisruptionbudgets N - status
rbac.authorization.k8s.io/v1:
clusterrolebindings C -
clusterroles C -
rolebindings N -
roles N -
storage.k8s.io/v1:
csidrivers C -
csinodes C -
csistoragecapacities N -
storageclasses C -
volumeattachments C - status
volumeattributesclasses C -
admissionregistration.k8s.io/v1:
mutatingadmissionpolicies C api-extensions
mutatingadmissionpolicybindings C api-extensions
mutatingwebhookconfigurations C api-extensions
validatingadmissionpolicies C api-extensions status
validatingadmissionpolicybindings C api-extensions
validatingwebhookconfigurations C api-extensions
apiregistration.k8s.io/v1:
apiservices C api-extensions status
authentication.k8s.io/v1:
selfsubjectreviews C -
tokenreviews C -
authorization.k8s.io/v1:
localsubjectaccessreviews N -
selfsubjectaccessreviews C -
selfsubjectrulesreviews C -
subjectaccessreviews C -
certificates.k8s.io/v1:
certificatesigningrequests C - approval status
coordination.k8s.io/v1:
leases N -
discovery.k8s.io/v1:
endpointslices N -
events.k8s.io/v1:
events N -
node.k8s.io/v1:
runtimeclasses C -
scheduling.k8s.io/v1:
priorityclasses C -
flowcontrol.apiserver.k8s.io/v1:
flowschemas C - status
prioritylevelconfigurations C - status
apiextensions.k8s.io/v1:
customresourcedefinitions C api-extensions status
resource.k8s.io/v1:
deviceclasses C -
resourceclaims N - status
resourceclaimtemplates N -
resourceslices C -";

#[test]
fn scopes_categories_and_subresources_match_kubernetes() {
    let mut version = "";
    let mut wanted = BTreeSet::new();
    for line in SHAPES.lines().filter(|line| !line.is_empty()) {
        match line.strip_suffix(':') {
            Some(next) => version = next,
            None => {
                wanted.insert(format!("{version} {line}"));
            }
        }
    }
    let shape = |row: &Resource| {
        let category = if row.categories.is_empty() { "-".to_owned() } else { row.categories.join(",") };
        let scope = if row.namespaced { "N" } else { "C" };
        let below = row.subresources.iter().map(|sub| format!(" {}", sub.name)).collect::<String>();
        format!("{} {} {scope} {category}{below}", row.api_version(), row.plural)
    };
    assert_eq!(RESOURCES.iter().map(shape).collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn kinds_have_all_eight_verbs_except_the_listed_ones() {
    let eight = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    for row in RESOURCES {
        let mut want = eight.to_vec();
        match row.plural {
            "namespaces" => want.retain(|verb| *verb != "deletecollection"),
            "componentstatuses" => want.retain(|verb| matches!(*verb, "get" | "list")),
            "bindings" => want.retain(|verb| *verb == "create"),
            plural if plural.ends_with("reviews") => want.retain(|verb| *verb == "create"),
            _ => {}
        }
        assert_eq!(row.verbs, want, "{}", row.qualified());
    }
}

/// Plurals of the stored rows for which the predicate holds.
fn plurals_where(hold: impl Fn(&Resource) -> bool) -> BTreeSet<&'static str> {
    stored().filter(|row| hold(row)).map(|row| row.plural).collect()
}

fn words(text: &'static str) -> BTreeSet<&'static str> {
    text.split_whitespace().collect()
}

#[test]
fn special_rules_apply_to_the_same_kinds_as_in_kubernetes() {
    let conditional = "apiservices csidrivers csinodes csistoragecapacities customresourcedefinitions leases mutatingadmissionpolicies
        mutatingadmissionpolicybindings mutatingwebhookconfigurations poddisruptionbudgets runtimeclasses
        validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations volumeattachments";
    assert_eq!(plurals_where(|row| !row.unconditional_update), words(conditional));
    let upsert = "clusterrolebindings clusterroles endpoints events leases limitranges rolebindings roles runtimeclasses
        services";
    assert_eq!(plurals_where(|row| row.create_on_update), words(upsert));
    let returned = "csidrivers csinodes deviceclasses namespaces persistentvolumeclaims persistentvolumes pods
        podtemplates resourceclaims resourceclaimtemplates resourcequotas resourceslices serviceaccounts services
        storageclasses volumeattachments volumeattributesclasses";
    assert_eq!(plurals_where(|row| row.returns_deleted), words(returned));
    let orphan = |row: &Resource| row.default_propagation == DefaultPropagation::Orphan;
    assert_eq!(plurals_where(orphan), words("jobs replicationcontrollers"));
    let none = |row: &Resource| row.default_propagation == DefaultPropagation::Unsupported;
    assert_eq!(plurals_where(none), words("events"));
    assert_eq!(plurals_where(|row| row.graceful_delete), words("pods"));
    let path = |row: &Resource| row.name_rule == NameRule::PathSegment;
    let named =
        "apiservices certificatesigningrequests clusterrolebindings clusterroles events poddisruptionbudgets
        rolebindings roles";
    assert_eq!(plurals_where(path), words(named));
    assert_eq!(plurals_where(|row| row.name_rule == NameRule::Label), words("namespaces services"));
}
