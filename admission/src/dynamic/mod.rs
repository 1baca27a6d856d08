//! Dynamic admission: webhooks and policies that are configured by objects of the cluster. Holds their
//! compiled configurations, calls them and applies their answers. Matching, reviews and error texts are in
//! `kstore_api::admission`; in-tree plugins are in `plugins`.

mod authorizer;
mod calls;
mod configurations;
pub(crate) mod form;
mod options;
pub(crate) mod reviews;

use crate::manifests::{self, ManifestFolder};
use crate::subject::Subject;
pub use calls::Calls;
use calls::Dependencies;
pub(crate) use calls::{ReviewingPlugins, WebhookCall};
use configurations::ConfigurationCache;
use kstore_access::authz::Authorizer;
use kstore_api::admission::equivalent::{Equivalent, equivalents};
use kstore_api::admission::{Attributes, ClusterFacts, GroupVersionKind, UserInfo};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{initializers, kind};
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::kinds::{Kinds, Served};
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::Outbound;
use kstore_registry::request::Target;
use kstore_storage::metrics::{AdmissionPolicies, AdmissionWebhooks};
pub use options::Options;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// The compiled configurations of one server and the dependencies of calls. Shared by all requests.
pub(crate) struct Dynamic {
    configured: ConfigurationCache,
    dependencies: Arc<Dependencies>,
    /// Whether the policies were costly as of the last request that used them.
    is_costly: AtomicBool,
}

impl Dynamic {
    /// Dynamic admission for the cluster that holds the configurations.
    pub(crate) fn new(
        cluster: Arc<dyn Lookup>,
        authorizer: Arc<Authorizer>,
        outbound: Arc<dyn Outbound>,
        nondet: Nondet,
    ) -> Self {
        let (metrics, policy_metrics, began) = (Arc::default(), Arc::default(), Instant::now());
        let dependencies =
            Dependencies { cluster, outbound, authorizer, nondet, metrics, policy_metrics, began };
        let (configured, is_costly) = (ConfigurationCache::default(), AtomicBool::new(false));
        Self { configured, dependencies: Arc::new(dependencies), is_costly }
    }

    /// The metrics of webhook calls and policy checks.
    pub(crate) fn metrics(&self) -> (Arc<AdmissionWebhooks>, Arc<AdmissionPolicies>) {
        (self.dependencies.metrics.clone(), self.dependencies.policy_metrics.clone())
    }

    /// Adds the webhooks and policies of these folders.
    pub(crate) fn follow(&self, folders: Vec<Arc<ManifestFolder>>) {
        self.configured.follow(folders);
    }

    /// Writes the metrics of static manifests.
    pub(crate) fn render_manifests(&self, page: &mut Page<'_>) {
        manifests::render(self.configured.folders(), &self.dependencies.nondet.clock, page);
    }

    /// The calls of one request that these plugins review. The configurations stored now judge it to its end.
    pub(crate) fn calls(&self, plugins: Arc<dyn ReviewingPlugins>) -> Calls {
        let clock = &self.dependencies.nondet.clock;
        let configurations = self.configured.now(&*self.dependencies.cluster, clock);
        self.is_costly.store(configurations.is_costly(), Ordering::Relaxed);
        Calls::new(configurations, self.dependencies.clone(), Some(plugins))
    }

    /// Whether policies have taken several milliseconds for one request, as of the last request that they
    /// could match.
    pub(crate) fn is_costly(&self) -> bool {
        self.is_costly.load(Ordering::Relaxed)
    }
}

/// A request as webhooks see it, without its objects.
#[derive(Clone, Copy)]
pub struct Admitted<'a> {
    /// The request as in-tree plugins see it.
    pub subject: Subject<'a>,
    /// The resource in the version of the request. Its name is not used.
    pub target: &'a Target,
    /// The options of the request.
    pub options: Options<'a>,
    /// The webhook calls so far.
    pub calls: &'a Calls,
}

impl Admitted<'_> {
    /// Whether webhooks or policies may match the request, or a plugin may wait.
    pub fn may_match(&self) -> bool {
        self.calls.may_match(self.subject.operation, self.subject.resource)
    }

    /// Decodes an object that a webhook or policy changed; neither changes its initializers.
    ///
    /// # Errors
    /// 500 if it is not an object of the kind.
    pub(crate) fn decode(&self, object: &mut Value, before: Option<&Value>) -> Result<(), Status> {
        self.target.decode_admitted(object)?;
        if let Some(before) = before.filter(|_| self.calls.has_initializers()) {
            initializers::carry(object, before);
        }
        Ok(())
    }
}

/// The parts of a request that are the same for all webhooks and policies of one step.
pub(crate) struct RequestContext {
    pub(crate) kinds: Arc<Kinds>,
    options: Option<Value>,
    namespace: Option<Arc<Value>>,
    equivalents: Vec<Equivalent>,
    /// The served resources of `equivalents`.
    pub(crate) served: Vec<Served>,
}

impl RequestContext {
    /// Reads the data that matching needs. `cluster` is the request's view.
    pub(crate) fn of(cluster: &dyn Lookup, admitted: &Admitted<'_>) -> Self {
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
    pub(crate) fn row_of(&self, kind: GroupVersionKind<'_>) -> Option<&'static Resource> {
        let equivalent = self.equivalents.iter().find(|equivalent| equivalent.kind() == kind);
        equivalent.map(|equivalent| equivalent.row).filter(|row| row.kind == kind.kind)
    }

    pub(crate) fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts { namespace: self.namespace.as_deref(), equivalents: &self.equivalents }
    }

    pub(crate) fn attributes<'a>(
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

/// The namespace of a request. A request about a Namespace is also one in that namespace.
fn namespace_of<'a>(subject: &Subject<'a>) -> &'a str {
    let is_namespace = subject.resource.is("", "namespaces");
    if is_namespace { subject.name } else { subject.namespace }
}

fn namespaces() -> &'static Resource {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    ROW.get_or_init(|| kind::lookup("", "v1", "namespaces").expect("namespaces are in the table of kinds"))
}
