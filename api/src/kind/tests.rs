//! What the table must be: unique, sorted, complete, laid out as Kubernetes lays it out.

use std::collections::BTreeSet;

use super::*;

#[test]
fn rows_are_unique_by_plural_and_by_kind() {
    assert_eq!(by_plural().len(), RESOURCES.len());
    assert_eq!(by_kind().len(), RESOURCES.len());
}

#[test]
fn rows_of_a_version_stand_together_sorted_by_plural_with_sorted_verbs() {
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
fn groups_and_versions_come_preferred_first() {
    let groups: Vec<_> = groups().collect();
    assert_eq!(&groups[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(versions("autoscaling").collect::<Vec<_>>(), ["v2", "v1"]);
}

#[test]
fn every_builtin_kind_is_there() {
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
fn short_names_are_kubectls_and_mean_one_resource() {
    let wanted = "po=pods svc=services cm=configmaps ep=endpoints ev=events sa=serviceaccounts ns=namespaces no=nodes
        pv=persistentvolumes pvc=persistentvolumeclaims rc=replicationcontrollers quota=resourcequotas limits=limitranges
        cs=componentstatuses deploy=deployments rs=replicasets sts=statefulsets ds=daemonsets cj=cronjobs
        hpa=horizontalpodautoscalers ing=ingresses netpol=networkpolicies ip=ipaddresses pdb=poddisruptionbudgets
        sc=storageclasses vac=volumeattributesclasses csr=certificatesigningrequests pc=priorityclasses";
    let wanted: BTreeSet<_> = wanted.split_whitespace().map(|w| w.split_once('=').unwrap()).collect();
    let have: BTreeSet<_> =
        RESOURCES.iter().flat_map(|r| r.short_names.iter().map(|short| (*short, r.plural))).collect();
    assert_eq!(have, wanted);
}

#[test]
fn keys_are_laid_out_as_kubernetes_lays_them_out() {
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
fn shared_storage_points_to_a_row_that_stores_itself() {
    for row in RESOURCES.iter().filter(|r| r.storage_version.is_some()) {
        let target = row.storage_row();
        assert!(target.storage_version.is_none());
        assert_eq!((target.storage, target.kind), (row.storage, row.kind));
    }
    let prefixes: BTreeSet<_> = stored().map(|r| r.storage).collect();
    assert_eq!(prefixes.len(), stored().count(), "no two kinds share a prefix by accident");
}
