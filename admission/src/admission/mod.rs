//! Admission: checks and changes of objects that depend on the cluster. Plugins run in Kubernetes' order, one
//! per file: first all may change the object, later all may refuse it. Synchronous and without side effects: a
//! plugin reads the cluster through a [`Lookup`] and may run several times for one request. What a plugin does
//! once per request, or waits for, is kept in the module `request_effects`. The module `plugin` says what a
//! plugin is; the list below and `mod` lines are the only other places that name one.
//! Validation of an object by itself is in `kstore_api::validate`.

mod always;
mod always_pull_images;
mod certificate_approval;
mod certificate_requester;
mod certificate_signing;
mod certificate_subject_restriction;
mod chain;
mod cluster_trust_bundle_attest;
mod configuration;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_exec;
mod deny_service_external_ips;
mod device_admin_access;
pub mod dynamic;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod initializers;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod metrics;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod plugin;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policy_lookup;
mod priority;
mod rbac_escalation;
mod registered;
mod request_effects;
mod resource_quota;
mod runtime_class;
mod security_context_deny;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod tests;
mod tolerations;

use chain::{Body, Chain};
pub use configuration::{ConfigurationContext, ConfigurationError, ConfiguredPlugins};
use dynamic::{Admitted, Calls, Dynamic};
use kstore_access::authz::Authorizer;
pub use kstore_api::admission::Operation;
use kstore_api::admission::Reinvocation;
use kstore_api::kind;
use kstore_api::quota::LimitedResource;
use kstore_api::resource::Resource;
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::Outbound;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::{SELF, UserInfo};
use metrics::AdmissionMetrics;
use plugin::{Phase, Plugin, Review, Row};
use policy_lookup::PolicyLookup;
pub use registered::{LEFT_OUT, PluginSwitches, plugins};
use serde_json::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// The plugins in Kubernetes' order.
static PLUGINS: &[&Row] = &[
    &always::ALWAYS_ADMIT,
    &namespace_auto_provision::ROW,
    &namespace_lifecycle::ROW,
    &namespace_exists::ROW,
    &security_context_deny::ROW,
    &limit_pod_hard_anti_affinity_topology::ROW,
    &limit_ranger::ROW,
    &service_account::ROW,
    &node_restriction::ROW,
    &taint_nodes_by_condition::ROW,
    &always_pull_images::ROW,
    &image_policy_webhook::ROW,
    &pod_security::ROW,
    &pod_node_selector::ROW,
    &priority::ROW,
    &default_toleration_seconds::ROW,
    &pod_toleration_restriction::ROW,
    &deny_exec::DENY_ESCALATING_EXEC,
    &deny_exec::DENY_EXEC_ON_PRIVILEGED,
    &event_rate_limit::ROW,
    &extended_resource_toleration::ROW,
    &default_storage_class::ROW,
    &storage_object_in_use_protection::ROW,
    &owner_references_permission_enforcement::ROW,
    &persistent_volume_claim_resize::ROW,
    &runtime_class::ROW,
    &certificate_approval::ROW,
    &certificate_signing::ROW,
    &cluster_trust_bundle_attest::ROW,
    &certificate_subject_restriction::ROW,
    &default_ingress_class::ROW,
    &deny_service_external_ips::ROW,
    &initializers::ROW,
    &pod_topology_labels::ROW,
    &pod_resize_validator::ROW,
    &certificate_requester::ROW,
    &device_admin_access::ROW,
    &rbac_escalation::ROW,
    // In Kubernetes it runs after webhooks and quotas.
    &always::ALWAYS_DENY,
    &dynamic::policies::MUTATING,
    &dynamic::mutating::ROW,
    &dynamic::policies::VALIDATING,
    &dynamic::validating::ROW,
    &resource_quota::ROW,
];

/// A request as plugins see it, without its objects.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user that sent the request.
    pub user: &'a UserInfo,
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub resource: &'static Resource,
    /// The subresource, or "".
    pub subresource: &'a str,
    /// The namespace, or "".
    pub namespace: &'a str,
    /// The object's name; "" while a name is yet to be generated.
    pub name: &'a str,
    /// Seed of random names that plugins generate; the same for repeated decisions about one request.
    pub seed: u64,
}

/// The admission chain of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Admission {
    cluster: Arc<PolicyLookup>,
    metrics: Arc<AdmissionMetrics>,
    dynamic: Arc<Dynamic>,
    chain: Arc<Chain>,
}

impl Admission {
    /// The chain for the cluster that `cluster` shows, with the plugins of the default set. `outbound` calls webhooks.
    pub fn new(
        cluster: Arc<dyn Lookup>,
        authorizer: Arc<Authorizer>,
        outbound: Arc<dyn Outbound>,
        nondet: Nondet,
    ) -> Self {
        let dynamic = Arc::new(Dynamic::new(cluster.clone(), authorizer.clone(), outbound, nondet));
        let chain = Chain::new(&PluginSwitches::default(), &ConfiguredPlugins::default());
        Self {
            cluster: Arc::new(PolicyLookup { cluster, authorizer }),
            metrics: Arc::default(),
            dynamic,
            chain: Arc::new(chain),
        }
    }

    /// Selects the plugins, and configures them.
    #[must_use]
    pub fn with(self, switches: &PluginSwitches, configured: &ConfiguredPlugins) -> Self {
        Self { chain: Arc::new(Chain::new(switches, configured)), ..self }
    }

    /// Whether new objects wait for initializers.
    pub fn initializes(&self) -> bool {
        self.chain.initializes
    }

    /// The kinds whose objects need a quota that covers them; `None` if the registry does not charge quotas.
    pub fn limited_resources(&self) -> Option<Arc<[LimitedResource]>> {
        self.chain.limited_resources()
    }

    /// The same chain over the cluster as a transaction sees it.
    #[must_use]
    pub fn over(&self, cluster: Arc<dyn Lookup>) -> Self {
        let authorizer = self.cluster.authorizer.clone();
        Self { cluster: Arc::new(PolicyLookup { cluster, authorizer }), ..self.clone() }
    }

    /// The calls of one request, before the first. Webhooks do not see the server's own writes, such as the
    /// initial objects of every cluster: otherwise a server could not start while a webhook is down.
    pub fn calls(&self, user: &UserInfo) -> Calls {
        let calls = self.dynamic.calls(self.chain.clone());
        if user.username == SELF { calls.none() } else { calls }
    }

    /// Whether admission policies have taken several milliseconds for one request.
    pub fn is_costly(&self) -> bool {
        self.dynamic.is_costly()
    }

    /// Writes the metrics in the Prometheus text format.
    pub fn render_metrics(&self) -> impl Fn(&mut String) + Send + Sync + 'static {
        let (metrics, (webhooks, policies)) = (self.metrics.clone(), self.dynamic.metrics());
        move |out| {
            metrics.render(&mut Page::new(out));
            webhooks.render(&mut Page::new(out));
            policies.render(&mut Page::new(out));
        }
    }

    /// Whether plugins may require other objects for new objects.
    pub fn prepares(&self) -> bool {
        self.chain.prepares
    }

    /// The absent objects that must exist before such a new object is decided about.
    pub fn required<'a>(&'a self, subject: &'a Subject<'a>) -> impl Iterator<Item = Value> + 'a {
        let preparing = self.chain.reviewing(Phase::Prepare, subject);
        preparing.filter_map(|running| running.plugin.prepare(&*self.cluster, subject))
    }

    /// Applies all plugins, webhooks and policies to `new`, which has its defaults. Afterwards it may lack some
    /// of them again.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook's answer is missing.
    pub fn mutate(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        let rounds = RefCell::new(Reinvocation::new());
        let review = self.review(admitted, old, &rounds);
        self.mutate_in_rounds((&review, Body::Stored), new)?;
        self.run(Phase::Complete, (&review, Body::Stored), |plugin| plugin.complete(&review, new))
    }

    /// Runs all plugins, webhooks and policies on the final object. For a deletion `new` is absent, and
    /// mutating webhooks are called too.
    ///
    /// # Errors
    /// The first refusal; or pending, if answers of webhooks are missing.
    pub fn validate(
        &self,
        admitted: &Admitted<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        let rounds = RefCell::new(Reinvocation::new());
        let reviewed = (&self.review(admitted, old, &rounds), Body::Stored);
        if new.is_none() {
            let mut none = Value::Null;
            self.run(Phase::Mutate, reviewed, |plugin| plugin.mutate(reviewed.0, &mut none))?;
        }
        self.run(Phase::Validate, reviewed, |plugin| plugin.validate(reviewed.0, new))
    }

    /// Whether the plugins without stored configurations have nothing to say about such an update if it only
    /// renews a Lease.
    pub fn ignores_renewal(&self, subject: &Subject<'_>) -> bool {
        self.chain.ignores_renewal(subject)
    }

    /// Whether plugins without stored configurations review the body of such a request, which is not stored as
    /// sent.
    pub fn reviews_unstored(&self, subject: &Subject<'_>) -> bool {
        self.chain.reviews_unstored(subject)
    }

    /// Whether the review of the unstored body of such a request needs the newest state of the cluster.
    pub fn needs_newest(&self, subject: &Subject<'_>) -> bool {
        self.chain.needs_newest(subject)
    }

    /// Runs the plugins, webhooks and policies that review bodies which are not stored as sent, such as
    /// bindings and options of streams.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook's answer is missing.
    pub fn admit_unstored(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        let rounds = RefCell::new(Reinvocation::new());
        let reviewed = (&self.review(admitted, old, &rounds), Body::Unstored);
        self.mutate_in_rounds(reviewed, new)?;
        self.run(Phase::Validate, reviewed, |plugin| plugin.validate(reviewed.0, Some(new)))
    }

    fn review<'a>(
        &'a self,
        admitted: &'a Admitted<'a>,
        old: Option<&'a Value>,
        rounds: &'a RefCell<Reinvocation>,
    ) -> Review<'a> {
        Review { cluster: &*self.cluster, subject: &admitted.subject, old, admitted, rounds }
    }

    /// Applies the plugins to `new` until no webhook or policy asks for another round.
    fn mutate_in_rounds(&self, reviewed: (&Review<'_>, Body), new: &mut Value) -> Result<(), Undecided> {
        loop {
            self.run(Phase::Mutate, reviewed, |plugin| plugin.mutate(reviewed.0, new))?;
            if !reviewed.0.rounds.borrow_mut().start_second_round() {
                return Ok(());
            }
        }
    }

    fn run(
        &self,
        phase: Phase,
        reviewed: (&Review<'_>, Body),
        ask: impl FnMut(&dyn Plugin) -> Result<(), Undecided>,
    ) -> Result<(), Undecided> {
        let _span = tracing::debug_span!("admission", phase = phase.name()).entered();
        self.chain.run(phase, reviewed, &self.metrics, ask)
    }
}

/// A row that must be in the table of kinds.
fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).expect("plugins name rows of the table")
}
