//! [`SetKind`]: ReplicaSets and ReplicationControllers. A ReplicationController is read as the equivalent
//! ReplicaSet and written back as itself. Pure.

use crate::claim::controller_ref;
use crate::object::Object;
use crate::view::{decode, subject};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerSpec,
    ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kstore_client::Obj;
use kstore_informer::Reference;

/// A kind that keeps a number of identical pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    /// apps/v1, created by Deployments.
    ReplicaSet,
    /// v1. Its selector is a plain map, and its status does not count terminating pods.
    ReplicationController,
}

impl SetKind {
    /// Name of the kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::ReplicaSet => "apps/v1",
            Self::ReplicationController => "v1",
        }
    }

    /// The controller reference to a set of this kind.
    pub(crate) fn reference(self, set: &ObjectMeta) -> OwnerReference {
        controller_ref(self.api_version(), self.name(), set)
    }

    /// Event reference to a set of this kind.
    pub(crate) fn about(self, set: &ReplicaSet) -> Reference {
        subject(self.api_version(), self.name(), &set.metadata)
    }

    /// The object to write.
    pub(crate) fn object(self, set: &ReplicaSet) -> Object {
        match self {
            Self::ReplicaSet => Object::of(set),
            Self::ReplicationController => Object::of(&as_replication_controller(set.clone())),
        }
    }

    /// The status with the fields of this kind.
    pub(crate) fn status(self, status: ReplicaSetStatus) -> ReplicaSetStatus {
        match self {
            Self::ReplicaSet => status,
            Self::ReplicationController => ReplicaSetStatus { terminating_replicas: None, ..status },
        }
    }
}

/// Decodes a ReplicationController as a ReplicaSet.
pub(crate) fn decode_replication_controller(json: &[u8]) -> Result<Obj<ReplicaSet>, serde_json::Error> {
    decode::<ReplicationController>(json).map(|controller| Obj::new(as_replica_set(controller)))
}

/// The ReplicaSet equivalent to a ReplicationController.
pub(crate) fn as_replica_set(controller: ReplicationController) -> ReplicaSet {
    let spec = controller.spec.map(|spec| ReplicaSetSpec {
        min_ready_seconds: spec.min_ready_seconds,
        replicas: spec.replicas,
        selector: LabelSelector { match_labels: spec.selector, match_expressions: None },
        template: spec.template,
    });
    let condition = |c: ReplicationControllerCondition| ReplicaSetCondition {
        last_transition_time: c.last_transition_time,
        message: c.message,
        reason: c.reason,
        status: c.status,
        type_: c.type_,
    };
    let status = controller.status.map(|status| ReplicaSetStatus {
        available_replicas: status.available_replicas,
        conditions: status.conditions.map(|all| all.into_iter().map(condition).collect()),
        fully_labeled_replicas: status.fully_labeled_replicas,
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas,
        replicas: status.replicas,
        terminating_replicas: None,
    });
    ReplicaSet { metadata: controller.metadata, spec, status }
}

/// The ReplicationController that was decoded as this ReplicaSet.
pub(crate) fn as_replication_controller(set: ReplicaSet) -> ReplicationController {
    let spec = set.spec.map(|spec| ReplicationControllerSpec {
        min_ready_seconds: spec.min_ready_seconds,
        replicas: spec.replicas,
        selector: spec.selector.match_labels,
        template: spec.template,
    });
    let condition = |c: ReplicaSetCondition| ReplicationControllerCondition {
        last_transition_time: c.last_transition_time,
        message: c.message,
        reason: c.reason,
        status: c.status,
        type_: c.type_,
    };
    let status = set.status.map(|status| ReplicationControllerStatus {
        available_replicas: status.available_replicas,
        conditions: status.conditions.map(|all| all.into_iter().map(condition).collect()),
        fully_labeled_replicas: status.fully_labeled_replicas,
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas,
        replicas: status.replicas,
    });
    ReplicationController { metadata: set.metadata, spec, status }
}
