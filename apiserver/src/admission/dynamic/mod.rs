//! Dynamic admission: the webhooks and policies that are configured by objects of the cluster. Holds their compiled configurations, asks
//! them and applies what they answer. What they may say and how it is worded is `kstore_api::admission`'s; the plugins of the server are the
//! modules beside this one.

mod authorizer;
mod calls;
mod configured;
mod form;
pub(super) mod mutating;
mod options;
pub(super) mod policies;
pub(super) mod validating;

pub(crate) use calls::Calls;
pub(crate) use options::Options;

use super::Subject;
use crate::authz::Authorizer;
use crate::kinds::{Kinds, Served};
use crate::lookup::Lookup;
use crate::metrics::{AdmissionPolicies, AdmissionWebhooks};
use crate::outbound::Outbound;
use crate::request::Target;
use calls::Around;
use configured::Configured;
use kstore_api::admission::equivalent::{Equivalent, equivalents};
use kstore_api::admission::{Attributes, ClusterFacts, GroupVersionKind, UserInfo};
use kstore_api::kind::{self, Resource};
use kstore_nondet::Nondet;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// The configurations of one server, compiled, and what they need beside the request. Shared by all requests.
pub(crate) struct Dynamic {
    configured: Configured,
    around: Arc<Around>,
    /// Whether the policies were costly when a request last asked for them.
    is_costly: AtomicBool,
}

impl Dynamic {
    /// Over the cluster that holds the configurations.
    pub(crate) fn new(
        cluster: Arc<dyn Lookup>,
        authorizer: Arc<Authorizer>,
        outbound: Arc<dyn Outbound>,
        nondet: Nondet,
    ) -> Self {
        let (metrics, policy_metrics, began) = (Arc::default(), Arc::default(), Instant::now());
        let around = Around { cluster, outbound, authorizer, nondet, metrics, policy_metrics, began };
        let (configured, is_costly) = (Configured::default(), AtomicBool::new(false));
        Self { configured, around: Arc::new(around), is_costly }
    }

    /// What is counted about calls to webhooks and checks of policies.
    pub(crate) fn metrics(&self) -> (Arc<AdmissionWebhooks>, Arc<AdmissionPolicies>) {
        (self.around.metrics.clone(), self.around.policy_metrics.clone())
    }

    /// What one request calls: by the configurations that are stored now, which judge it to its end.
    pub(crate) fn calls(&self) -> Calls {
        let configurations = self.configured.now(&*self.around.cluster);
        self.is_costly.store(configurations.is_costly(), Ordering::Relaxed);
        Calls::new(configurations, self.around.clone())
    }

    /// Whether policies took several milliseconds for one request so far, as of the last request that they could match.
    pub(crate) fn is_costly(&self) -> bool {
        self.is_costly.load(Ordering::Relaxed)
    }
}

/// One request as webhooks see it, but for its objects.
#[derive(Clone, Copy)]
pub(crate) struct Admitted<'a> {
    /// What plugins see.
    pub(crate) subject: Subject<'a>,
    /// The resource in the version of the request. Its name is not used.
    pub(crate) target: &'a Target,
    /// The options of the request.
    pub(crate) options: Options<'a>,
    /// The calls to webhooks so far.
    pub(crate) calls: &'a Calls,
}

impl Admitted<'_> {
    /// Whether webhooks or policies may match the request.
    pub(crate) fn may_match(&self) -> bool {
        self.calls.may_match(self.subject.operation, self.subject.resource.plural)
    }
}

/// What all webhooks and policies of one step see alike.
struct Scene {
    kinds: Arc<Kinds>,
    options: Option<Value>,
    namespace: Option<Arc<Value>>,
    equivalents: Vec<Equivalent>,
    /// The resources of `equivalents`.
    served: Vec<Served>,
}

impl Scene {
    /// Reads what matching needs. `cluster` is as the request sees it.
    fn of(cluster: &dyn Lookup, admitted: &Admitted<'_>) -> Self {
        let subject = &admitted.subject;
        let namespace = namespace_of(subject);
        let kinds = cluster.kinds();
        let equivalents = equivalents(kinds.rows(), subject.resource, subject.subresource);
        Self {
            options: admitted.options.to_json(),
            namespace: (!namespace.is_empty()).then(|| cluster.get(namespaces(), "", namespace)).flatten(),
            served: equivalents.iter().map(|equivalent| kinds.served(equivalent.row)).collect(),
            equivalents,
            kinds,
        }
    }

    /// The row of an equivalent resource, by the kind of its objects.
    fn row_of(&self, kind: GroupVersionKind<'_>) -> Option<&'static Resource> {
        let equivalent = self.equivalents.iter().find(|equivalent| equivalent.kind() == kind);
        equivalent.map(|equivalent| equivalent.row).filter(|row| row.kind == kind.kind)
    }

    fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts { namespace: self.namespace.as_deref(), equivalents: &self.equivalents }
    }

    fn attributes<'a>(
        &'a self,
        admitted: &Admitted<'a>,
        object: Option<&'a Value>,
        old_object: Option<&'a Value>,
    ) -> Attributes<'a> {
        let subject = &admitted.subject;
        let resource = subject.resource;
        let kind: GroupVersionKind<'static> = match resource.subresource(subject.subresource) {
            Some(below) => below.into(),
            None => resource.into(),
        };
        let user = subject.user;
        Attributes {
            operation: subject.operation,
            resource: resource.into(),
            subresource: subject.subresource,
            kind,
            namespace: namespace_of(subject),
            name: subject.name,
            user: UserInfo {
                username: &user.username,
                uid: &user.uid,
                groups: &user.groups,
                extra: &user.extra,
            },
            dry_run: admitted.options.is_dry_run(),
            options: self.options.as_ref(),
            object,
            old_object,
        }
    }
}

/// A request about a Namespace is also one in that namespace.
fn namespace_of<'a>(subject: &Subject<'a>) -> &'a str {
    let is_namespace = subject.resource.group.is_empty() && subject.resource.plural == "namespaces";
    if is_namespace { subject.name } else { subject.namespace }
}

fn namespaces() -> &'static Resource {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    ROW.get_or_init(|| kind::lookup("", "v1", "namespaces").expect("namespaces are in the table of kinds"))
}
