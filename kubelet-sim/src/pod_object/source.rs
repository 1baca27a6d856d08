//! The ConfigMaps, Secrets, claims and trust bundles that pods refer to: whether they exist, and their keys, without values.
//! Pure; `manager::sources` updates it.

use std::collections::{BTreeMap, BTreeSet};

/// A kind of object that pods refer to by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A PersistentVolumeClaim.
    Claim,
    /// A ClusterTrustBundle.
    TrustBundle,
    /// A ResourceClaim.
    ResourceClaim,
    /// A certificate that the kubelet requests for a source of a projected volume. Its name is in no API: the pod's uid, the volume and
    /// the position of the source.
    PodCertificate,
}

impl SourceKind {
    /// The resource name that begins a kubelet's "not found" messages.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::Claim => "persistentvolumeclaim",
            Self::TrustBundle => "clustertrustbundle.certificates.k8s.io",
            Self::ResourceClaim => "resourceclaim",
            Self::PodCertificate => "podcertificaterequest.certificates.k8s.io",
        }
    }
}

/// Identifies an object that pods refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// Kind of the object.
    pub kind: SourceKind,
    /// Namespace of the object, which is the pod's; empty for cluster-wide objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// The known state of an object that pods refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// The API has no such object.
    Missing,
    /// It exists and has these keys. The keys of a ResourceClaim are the uids of the pods for which it is
    /// reserved.
    Present(BTreeSet<String>),
    /// A claim that is not bound to a volume.
    Unbound,
    /// A certificate that the pod does not get, with the reason.
    Refused(String),
}

/// The known states of all objects that pods refer to.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<SourceKey, SourceState>);

impl Sources {
    /// The state of an object; `None` while the API has not answered yet.
    pub fn get(&self, key: &SourceKey) -> Option<&SourceState> {
        self.0.get(key)
    }

    /// Sets the state of an object. True if it has changed.
    pub fn set(&mut self, key: SourceKey, state: SourceState) -> bool {
        let before = self.0.insert(key.clone(), state);
        before.as_ref() != self.0.get(&key)
    }

    /// Removes an object that no pod refers to any more.
    pub fn remove(&mut self, key: &SourceKey) {
        self.0.remove(key);
    }
}
