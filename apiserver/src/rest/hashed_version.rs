//! The storage versions that the hashes in discovery state: those of kube-apiservers, in every version of Kubernetes.

use kstore_api::resource::Resource;
use kstore_api::version::Minor;

/// Versions in which kube-apiservers of some versions of Kubernetes store a kind, where they are not the storage version here: group,
/// plural, first and last such version of Kubernetes, and the version that its hash states.
const HASHED: [(&str, &str, Minor, Minor, &str); 13] = [
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", Minor::V36, Minor::V36, "v1beta1"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", Minor::V36, Minor::V36, "v1beta1"),
    ("apiextensions.k8s.io", "customresourcedefinitions", Minor::V33, Minor::V37, "v1beta1"),
    ("networking.k8s.io", "ipaddresses", Minor::V33, Minor::V33, "v1beta1"),
    ("networking.k8s.io", "servicecidrs", Minor::V33, Minor::V33, "v1beta1"),
    ("resource.k8s.io", "deviceclasses", Minor::V34, Minor::V34, "v1beta2"),
    ("resource.k8s.io", "resourceclaims", Minor::V34, Minor::V34, "v1beta2"),
    ("resource.k8s.io", "resourceclaimtemplates", Minor::V34, Minor::V34, "v1beta2"),
    ("resource.k8s.io", "resourceslices", Minor::V34, Minor::V34, "v1beta2"),
    ("resource.k8s.io", "devicetaintrules", Minor::V37, Minor::V37, "v1beta2"),
    ("certificates.k8s.io", "podcertificaterequests", Minor::V37, Minor::V37, "v1beta1"),
    ("storage.k8s.io", "volumeattributesclasses", Minor::V34, Minor::V35, "v1beta1"),
    ("storagemigration.k8s.io", "storageversionmigrations", Minor::V37, Minor::V37, "v1beta1"),
];

/// The version that the hash of a storage version states in a version of Kubernetes. Clients compare hashes alone.
pub(super) fn of(minor: Minor, stored: &Resource) -> &'static str {
    let is_meant = |(group, plural, first, last, _): &&(&str, &str, Minor, Minor, &str)| {
        stored.is(group, plural) && *first <= minor && minor <= *last
    };
    HASHED.iter().find(is_meant).map_or(stored.version, |(.., version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::crd::discovery::storage_version_hash;
    use kstore_api::kind::lookup;

    #[test]
    fn hashes_are_those_of_a_running_kube_apiserver_1_36() {
        for (group, plural, hash) in [
            ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "LYmCf+UMVdg="),
            ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "90V5FRZZ3Zg="),
            ("apiextensions.k8s.io", "customresourcedefinitions", "jfWCUB31mvA="),
            ("", "pods", "xPOwRZ+Yhw8="),
        ] {
            let row = lookup(group, "v1", plural).unwrap();
            assert_eq!(storage_version_hash(group, of(Minor::V36, row), row.kind), hash, "{plural}");
        }
    }

    #[test]
    fn a_kind_is_hashed_in_a_new_version_one_release_after_its_introduction() {
        let claims = lookup("resource.k8s.io", "v1", "resourceclaims").unwrap();
        assert_eq!([Minor::V34, Minor::V35].map(|minor| of(minor, claims)), ["v1beta2", "v1"]);
        let classes = lookup("storage.k8s.io", "v1", "volumeattributesclasses").unwrap();
        assert_eq!([Minor::V35, Minor::V36].map(|minor| of(minor, classes)), ["v1beta1", "v1"]);
    }
}
