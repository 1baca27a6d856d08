//! The ConfigMaps, Secrets and claims that pods refer to, as far as the kubelet knows them: which exist, and which keys they
//! have. No values. Pure; `manager::sources` feeds it.

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
}

impl SourceKind {
    /// The word with which "not found" begins in a kubelet's messages.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::Claim => "persistentvolumeclaim",
        }
    }
}

/// Which object a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// Its kind.
    pub kind: SourceKind,
    /// Its namespace, which is the pod's.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is known of an object that a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// The API has no such object.
    Missing,
    /// It exists and has these keys.
    Present(BTreeSet<String>),
    /// A claim that is bound to no volume.
    Unbound,
}

/// What is known of all objects that pods refer to.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<SourceKey, SourceState>);

impl Sources {
    /// What is known of this object; `None` while the API has not answered yet.
    pub fn get(&self, key: &SourceKey) -> Option<&SourceState> {
        self.0.get(key)
    }

    /// Takes what the API says of an object. True if that is news.
    pub fn set(&mut self, key: SourceKey, state: SourceState) -> bool {
        let before = self.0.insert(key.clone(), state);
        before.as_ref() != self.0.get(&key)
    }

    /// Forgets an object that no pod refers to any more.
    pub fn remove(&mut self, key: &SourceKey) {
        self.0.remove(key);
    }
}
