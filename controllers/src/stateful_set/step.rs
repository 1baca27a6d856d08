//! [`Step`]: the writes for one pod of a StatefulSet with their events, and the events of failures. Pure.

use super::identity::name;
use crate::action::{Action, Propagation};
use crate::object::Object;
use crate::resource::resource_of;
use crate::view::{Pod, subject};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kstore_informer::Reference;

/// Operation on the pod, in the words of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Create the pod, after its claims.
    Create,
    /// Update its identity, storage, or the owners of its claims.
    Update,
    /// Delete the pod.
    Delete,
}

/// Writes for one pod, each followed by its event, to be executed in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Operation on the pod.
    pub verb: Verb,
    /// Name of the pod.
    pub pod: String,
    /// Writes and events.
    pub actions: Vec<Action>,
}

/// Event reference to the StatefulSet.
pub(crate) fn about(set: &StatefulSet) -> Reference {
    subject("apps/v1", "StatefulSet", &set.metadata)
}

impl Step {
    /// A step without writes yet.
    pub(crate) fn new(verb: Verb, pod: &str) -> Self {
        Self { verb, pod: pod.to_owned(), actions: vec![] }
    }

    /// Adds the deletion of the pod.
    pub(crate) fn delete_pod(&mut self, set: &StatefulSet, pod: &Pod) {
        let target = pod.target();
        self.actions.push(Action::Delete { target, propagation: Propagation::Default, force: false });
        self.succeed(set);
    }

    /// Adds the creation of a claim.
    pub(crate) fn create_claim(&mut self, set: &StatefulSet, claim: &PersistentVolumeClaim) {
        let claim_name = claim.metadata.name.as_deref().unwrap_or_default();
        let message =
            format!("create Claim {claim_name} Pod {} in StatefulSet {} success", self.pod, name(set));
        self.actions.push(Action::Create(Object::of(claim)));
        self.actions.push(Action::normal(about(set), "SuccessfulCreate", message));
    }

    /// Adds the creation of the pod.
    pub(crate) fn create_pod(&mut self, set: &StatefulSet, pod: &core::Pod) {
        self.actions.push(Action::Create(Object::of(pod)));
        self.succeed(set);
    }

    /// Adds the event of the successful operation.
    pub(crate) fn succeed(&mut self, set: &StatefulSet) {
        let (title, word) = self.verb.words();
        let message = format!("{word} Pod {} in StatefulSet {} successful", self.pod, name(set));
        self.actions.push(Action::normal(about(set), &format!("Successful{title}"), message));
    }

    /// The event of the failed operation.
    pub(crate) fn complaint(&self, set: &StatefulSet, error: &str) -> Action {
        let (title, word) = self.verb.words();
        let message = format!("{word} Pod {} in StatefulSet {} failed error: {error}", self.pod, name(set));
        Action::warning(about(set), &format!("Failed{title}"), message)
    }

    /// The events of a failed action at index `at`. An existing object causes no event: the caches are
    /// behind.
    pub(crate) fn failure(&self, set: &StatefulSet, at: usize, error: &str, exists: bool) -> Vec<Action> {
        let claim = match self.actions.get(at) {
            Some(Action::Create(object)) if object.resource == resource_of::<PersistentVolumeClaim>() => {
                object
            }
            _ if exists => return vec![],
            _ => return vec![self.complaint(set, error)],
        };
        let mut events = vec![];
        if !exists {
            let (claim, set_name) = (&claim.name, name(set));
            let message = format!(
                "create Claim {claim} for Pod {} in StatefulSet {set_name} failed error: {error}",
                self.pod
            );
            events.push(Action::warning(about(set), "FailedCreate", message));
        }
        // Claims of a waiting pod are created in a separate step, which has no event about the pod.
        if self.verb == Verb::Create {
            events.push(self.complaint(set, &format!("failed to create PVC {}: {error}", claim.name)));
        }
        events
    }
}

impl Verb {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("Create", "create"),
            Self::Update => ("Update", "update"),
            Self::Delete => ("Delete", "delete"),
        }
    }
}
