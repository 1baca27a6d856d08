//! Admission: checks and changes of objects that depend on the cluster. In-tree plugins run in Kubernetes'
//! order, one per file: first all may change the object, later all may refuse it. Synchronous and without
//! side effects: a plugin reads the cluster through a [`Lookup`] and may run several times for one request.
//! What a plugin does once per request, or waits for, is kept in the module `request_effects`.
//! Validation of an object by itself is in `kstore_api::validate`.

mod always;
mod always_pull_images;
mod certificate_approval;
mod certificate_requester;
mod certificate_signing;
mod certificate_subject_restriction;
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
mod limited_resources;
mod metrics;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
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
mod runtime_class;
mod security_context_deny;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod tests;
mod tolerations;

pub use configuration::{ConfigurationError, ConfiguredPlugins};
use dynamic::{Admitted, Calls, Dynamic};
pub use image_policy_webhook::ImagePolicyOptions;
use initializers::ConfiguredInitializers;
use kstore_access::audit;
use kstore_access::authz::Authorizer;
use kstore_access::authz::policy::Policy;
pub use kstore_api::admission::Operation;
use kstore_api::admission::Reinvocation;
use kstore_api::admission::review::AuditAnnotation;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::Outbound;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::{SELF, UserInfo};
use metrics::AdmissionMetrics;
use policy_lookup::PolicyLookup;
pub use registered::{LEFT_OUT, PluginSwitches, RESOURCE_QUOTA, plugins};
use registered::{
    MUTATING_POLICY, MUTATING_WEBHOOK, NODE_RESTRICTION, OWNER_REFERENCES, RBAC_ESCALATION, Running,
    VALIDATING_POLICY, VALIDATING_WEBHOOK,
};
use request_effects::RequestEffects;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

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

impl Subject<'_> {
    /// Whether the request is about objects (not a subresource) of this group and plural.
    fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.is(group, plural)
    }

    /// A 403 with the plugin's text.
    fn forbidden(&self, text: &str) -> Status {
        Status::forbidden(self.resource, self.name, text)
    }
}

/// Warnings and audit annotations of plugins.
#[derive(Default)]
pub(crate) struct Remarks {
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Audit annotations; empty if the request is not audited.
    pub(crate) notes: Vec<AuditAnnotation>,
    /// Whether the request is audited.
    pub(crate) is_recorded: bool,
    /// What plugins did for the request in earlier decisions.
    effects: Arc<RequestEffects>,
}

impl Remarks {
    /// Adds an audit annotation, if the request is audited.
    fn note(&mut self, note: impl FnOnce() -> (String, String)) {
        if self.is_recorded {
            let (key, value) = note();
            self.notes.push(AuditAnnotation { key, value });
        }
    }
}

/// The cluster as plugins see it: its objects, and its roles and bindings.
trait Cluster: Lookup {
    /// The roles and bindings.
    fn policy(&self) -> Arc<Policy>;
}

/// An in-tree admission plugin. `old` is the stored object, if there is one.
trait Plugin: Send + Sync {
    /// Changes the object, or refuses the request.
    fn mutate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let _ = (cluster, subject, new, old);
        Ok(())
    }

    /// Refuses invalid requests. `new` is absent for a deletion.
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let _ = (cluster, subject, new, old);
        Ok(())
    }

    /// Refuses a stream to an object, such as a command in a pod.
    fn connect(&self, cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<(), Status> {
        let _ = (cluster, subject);
        Ok(())
    }

    /// Refuses invalid requests like [`Plugin::validate`], and adds warnings and audit annotations.
    fn review(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Status> {
        let _ = remarks;
        self.validate(cluster, subject, new, old)
    }

    /// Refuses invalid requests like [`Plugin::review`]; may first wait for something outside the process.
    fn decide(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Undecided> {
        Ok(self.review(cluster, subject, new, old, remarks)?)
    }
}

/// Plugins that check whether the user's roles permit more than the request itself needs.
pub const ROLE_CHECKS: [&str; 5] = [
    RBAC_ESCALATION,
    OWNER_REFERENCES,
    "CertificateApproval",
    "CertificateSigning",
    cluster_trust_bundle_attest::NAME,
];

/// The admission chain of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Admission {
    cluster: Arc<PolicyLookup>,
    metrics: Arc<AdmissionMetrics>,
    dynamic: Arc<Dynamic>,
    switches: Arc<PluginSwitches>,
    /// The enabled in-tree plugins, in their order.
    running: Arc<[Running]>,
    /// Whether images of pods are reviewed.
    reviews_images: bool,
    /// Whether new objects wait for initializers.
    initializes: bool,
    /// Which objects wait for initializers.
    initializers: Arc<ConfiguredInitializers>,
}

impl Admission {
    /// The chain for the cluster that `cluster` shows. `outbound` calls webhooks.
    pub fn new(
        cluster: Arc<dyn Lookup>,
        authorizer: Arc<Authorizer>,
        outbound: Arc<dyn Outbound>,
        nondet: Nondet,
    ) -> Self {
        let dynamic = Arc::new(Dynamic::new(cluster.clone(), authorizer.clone(), outbound, nondet));
        let switches = PluginSwitches::default();
        let running = switches.running(&ConfiguredPlugins::default());
        Self {
            cluster: Arc::new(PolicyLookup { cluster, authorizer }),
            metrics: Arc::default(),
            dynamic,
            switches: Arc::new(switches),
            running,
            reviews_images: false,
            initializes: false,
            initializers: Arc::default(),
        }
    }

    /// Selects the plugins, and configures them.
    #[must_use]
    pub fn with(self, switches: &PluginSwitches, configured: &ConfiguredPlugins) -> Self {
        let name = image_policy_webhook::NAME;
        let reviews_images = switches.runs(name) && configured.get(name).is_some();
        let (running, initializes) = (switches.running(configured), switches.runs(initializers::NAME));
        Self { switches: Arc::new(switches.clone()), running, reviews_images, initializes, ..self }
    }

    /// Whether missing namespaces of new objects are created.
    pub fn provisions_namespaces(&self) -> bool {
        self.switches.runs(namespace_auto_provision::NAME)
    }

    /// Whether new objects wait for initializers.
    pub fn initializes(&self) -> bool {
        self.initializes
    }

    /// Whether a plugin that calls webhooks or evaluates policies is enabled.
    fn runs(&self, plugin: &str) -> bool {
        !self.switches.disabled.contains(plugin)
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
        let effects = RequestEffects::new(self.reviews_images, self.initializes());
        let calls = self.dynamic.calls(effects);
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

    /// Runs the plugins one after the other until one refuses.
    fn each(
        &self,
        step: &'static str,
        subject: &Subject<'_>,
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), Undecided>,
    ) -> Result<(), Undecided> {
        let began = Instant::now();
        let mut last = began;
        // A decision that waits is repeated, and counts when it is made.
        let count = |plugin, verdict: &Result<(), Undecided>, took| match verdict {
            Err(Undecided::Pending(_)) => {}
            Ok(()) | Err(Undecided::Refused(_)) => {
                self.metrics.count(plugin, step, subject.operation, verdict.is_err(), took);
            }
        };
        let mut concerned = self.running.iter().filter(|running| running.registered.concerns(subject));
        let verdict = concerned.try_for_each(|running| {
            let verdict = ask(running.plugin());
            let now = Instant::now();
            count(running.registered.name, &verdict, now - last);
            last = now;
            verdict
        });
        count("", &verdict, last - began);
        verdict
    }

    /// Applies all plugins and webhooks to `new`, which has its defaults. Afterwards it may lack some of them
    /// again.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook's answer is missing.
    pub fn mutate(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        self.mutate_in_tree(&admitted.subject, new, old)?;
        self.mutate_dynamically(admitted, new, old, |new| self.mutate_in_tree(&admitted.subject, new, old))?;
        self.initializers.admit(&*self.cluster, admitted, new, old)
    }

    /// Applies all policies and webhooks to `new`; `between` runs before each round but the first.
    fn mutate_dynamically(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
        between: impl Fn(&mut Value) -> Result<(), Undecided>,
    ) -> Result<(), Undecided> {
        if !admitted.may_match() {
            return Ok(());
        }
        let mut rounds = Reinvocation::new();
        loop {
            if self.runs(MUTATING_POLICY) {
                dynamic::policies::mutate(&*self.cluster, admitted, new, old, &mut rounds)?;
            }
            if self.runs(MUTATING_WEBHOOK) {
                dynamic::mutating::mutate(&*self.cluster, admitted, Some(new), old, &mut rounds)?;
            }
            if !rounds.start_second_round() {
                return Ok(());
            }
            between(new)?;
        }
    }

    /// Adds the topology labels of the node to a pod's binding, from which the pod gets them.
    pub fn label_binding(&self, binding: &mut Value) {
        if self.switches.runs(pod_topology_labels::NAME) {
            pod_topology_labels::label_binding(&*self.cluster, binding);
        }
    }

    /// Checks a node's POST to a subresource, such as an eviction or a token request. No other in-tree plugin
    /// has rules for these.
    ///
    /// # Errors
    /// The refusal of NodeRestriction.
    pub fn restrict_node(&self, subject: &Subject<'_>, posted: &Value) -> Result<(), Status> {
        if !self.runs(NODE_RESTRICTION) {
            return Ok(());
        }
        node_restriction::restrict(&*self.cluster, subject, Some(posted), None)
    }

    /// Whether an in-tree plugin may refuse streams to pods.
    pub fn reviews_streams(&self) -> bool {
        self.running.iter().any(|running| running.registered.reviews_streams())
    }

    /// Admits a stream with these options. Changes of the options are dropped: the stream opens with the
    /// client's options.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook's answer is missing.
    pub fn admit_stream(&self, admitted: &Admitted<'_>, options: &Value) -> Result<(), Undecided> {
        let options = &mut options.clone();
        self.mutate_dynamically(admitted, options, None, |_| Ok(()))?;
        if self.reviews_streams() {
            let subject = &admitted.subject;
            self.each("validate", subject, |plugin| Ok(plugin.connect(&*self.cluster, subject)?))?;
        }
        self.validate_dynamically(admitted, Some(options), None)
    }

    /// Runs only webhooks and policies, for objects that are not stored as sent, such as bindings.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook's answer is missing.
    pub fn admit_dynamic(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        self.mutate_dynamically(admitted, new, old, |_| Ok(()))?;
        self.validate_dynamically(admitted, Some(new), old)
    }

    fn validate_dynamically(
        &self,
        admitted: &Admitted<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        if !admitted.may_match() {
            return Ok(());
        }
        if self.runs(VALIDATING_POLICY) {
            dynamic::policies::validate(&*self.cluster, admitted, new, old)?;
        }
        if self.runs(VALIDATING_WEBHOOK) {
            dynamic::validating::validate(&*self.cluster, admitted, new, old)?;
        }
        Ok(())
    }

    /// Runs all plugins and webhooks on the final object. For a deletion `new` is absent, and mutating
    /// webhooks are called too.
    ///
    /// # Errors
    /// The first refusal; or pending, if answers of webhooks are missing.
    pub fn validate(
        &self,
        admitted: &Admitted<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        if new.is_none() && admitted.may_match() && self.runs(MUTATING_WEBHOOK) {
            dynamic::mutating::mutate(&*self.cluster, admitted, None, old, &mut Reinvocation::new())?;
        }
        let mut remarks = Remarks {
            is_recorded: audit::is_recording(),
            effects: admitted.calls.effects().clone(),
            ..Remarks::default()
        };
        let verdict = self.validate_in_tree(&admitted.subject, new, old, &mut remarks);
        admitted.calls.take(remarks);
        verdict?;
        self.validate_dynamically(admitted, new, old)
    }

    /// Applies all in-tree plugins to `new`.
    ///
    /// # Errors
    /// The first refusal.
    pub fn mutate_in_tree(
        &self,
        subject: &Subject<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        let _span = tracing::debug_span!("admission", phase = "mutate").entered();
        self.each("admit", subject, |plugin| Ok(plugin.mutate(&*self.cluster, subject, new, old)?))
    }

    /// Runs all in-tree plugins on the final object; for a deletion `new` is absent.
    ///
    /// # Errors
    /// The first refusal; or pending, if a plugin waits.
    pub(crate) fn validate_in_tree(
        &self,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Undecided> {
        let _span = tracing::debug_span!("admission", phase = "validate").entered();
        self.each("validate", subject, |plugin| plugin.decide(&*self.cluster, subject, new, old, remarks))
    }
}

/// A row that must be in the table of kinds.
fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).expect("plugins name rows of the table")
}
