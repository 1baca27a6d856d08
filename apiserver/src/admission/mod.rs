//! Admission: what the cluster has to say about an object beyond its own rules. Plugins in Kubernetes' order, one per file; first
//! all may change the object, later all may refuse it. Synchronous and without effects: a plugin reads the cluster through a
//! [`Lookup`] and may run several times for one request. Not validation of the object by itself: that is `kstore_api::validate`.

mod always;
mod always_pull_images;
mod certificate_approval;
mod certificate_requester;
mod certificate_signing;
mod certificate_subject_restriction;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
pub(crate) mod dynamic;
mod extended_resource_toleration;
mod figures;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_exists;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_node_selector;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod priority;
mod rbac_escalation;
mod registered;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod tests;
mod tolerations;

use crate::audit;
use crate::authn::UserInfo;
use crate::authz::Authorizer;
use crate::bootstrap::SELF;
use crate::lookup::Lookup;
use crate::metrics::Page;
use crate::outbound::Outbound;
use crate::undecided::Undecided;
use dynamic::{Admitted, Calls, Dynamic};
use figures::Figures;
pub use kstore_api::admission::Operation;
use kstore_api::admission::Reinvocation;
use kstore_api::admission::review::AuditAnnotation;
use kstore_api::kind::{self, Resource};
use kstore_api::status::Status;
use kstore_nondet::Nondet;
pub(crate) use registered::RESOURCE_QUOTA;
use registered::{
    MUTATING_POLICY, MUTATING_WEBHOOK, NODE_RESTRICTION, OWNER_REFERENCES, RBAC_ESCALATION, Registered,
    VALIDATING_POLICY, VALIDATING_WEBHOOK,
};
pub use registered::{PluginSwitches, plugins};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

/// What a plugin sees of a request, besides the objects.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The caller.
    pub user: &'a UserInfo,
    /// What is being done.
    pub operation: Operation,
    /// The kind.
    pub resource: &'static Resource,
    /// The subresource, or "".
    pub subresource: &'a str,
    /// The namespace, or "".
    pub namespace: &'a str,
    /// The object's name; "" while a name is yet to be generated.
    pub name: &'a str,
    /// Seed of the random names that plugins give; the same each time that one request is decided.
    pub seed: u64,
}

impl Subject<'_> {
    /// Whether it is about objects (not a subresource) of this group and plural.
    fn is(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == plural
    }

    /// 403 in a plugin's words.
    fn forbidden(&self, text: &str) -> Status {
        Status::forbidden(self.resource, self.name, text)
    }
}

/// What plugins say beside their verdicts.
#[derive(Default)]
pub(crate) struct Remarks {
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Notes for the audit log; none if the request is not recorded.
    pub(crate) notes: Vec<AuditAnnotation>,
    /// Whether the request is recorded.
    pub(crate) is_recorded: bool,
}

impl Remarks {
    /// Adds a note for the audit log, if the request is recorded.
    fn note(&mut self, note: impl FnOnce() -> (String, String)) {
        if self.is_recorded {
            let (key, value) = note();
            self.notes.push(AuditAnnotation { key, value });
        }
    }
}

/// One opinion. `old` is the object before, if there was one.
trait Plugin: Send + Sync {
    /// Changes the object, or refuses it.
    fn mutate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let _ = (cluster, subject, new, old);
        Ok(())
    }

    /// Refuses what must not be. `new` is absent when the object is being deleted.
    fn validate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let _ = (cluster, subject, new, old);
        Ok(())
    }

    /// Refuses what must not be, as [`Plugin::validate`], and has remarks on the rest.
    fn review(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Status> {
        let _ = remarks;
        self.validate(cluster, subject, new, old)
    }
}

/// The plugins that only check whether the user's roles permit more than the request itself needs.
pub(crate) const ROLE_CHECKS: [&str; 4] =
    [RBAC_ESCALATION, OWNER_REFERENCES, "CertificateApproval", "CertificateSigning"];

/// The chain over one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Admission {
    cluster: Arc<dyn Lookup>,
    figures: Arc<Figures>,
    dynamic: Arc<Dynamic>,
    switches: Arc<PluginSwitches>,
    /// The plugins of the server that run, in their order.
    running: Arc<[&'static Registered]>,
}

impl Admission {
    /// Over the cluster that `cluster` shows. Webhooks are called by `outbound`.
    pub fn new(
        cluster: Arc<dyn Lookup>,
        authorizer: Arc<Authorizer>,
        outbound: Arc<dyn Outbound>,
        nondet: Nondet,
    ) -> Self {
        let dynamic = Arc::new(Dynamic::new(cluster.clone(), authorizer, outbound, nondet));
        let switches = PluginSwitches::default();
        let running = switches.running().into();
        Self { cluster, figures: Arc::default(), dynamic, switches: Arc::new(switches), running }
    }

    /// With these plugins of [`plugins`].
    #[must_use]
    pub(crate) fn with(self, switches: &PluginSwitches) -> Self {
        Self { switches: Arc::new(switches.clone()), running: switches.running().into(), ..self }
    }

    /// Whether one of the plugins runs that call webhooks and policies.
    fn runs(&self, plugin: &str) -> bool {
        !self.switches.disabled.contains(plugin)
    }

    /// The same chain over the cluster as a transaction sees it.
    #[must_use]
    pub(crate) fn over(&self, cluster: Arc<dyn Lookup>) -> Self {
        Self { cluster, ..self.clone() }
    }

    /// The calls to webhooks of one request, before the first. Webhooks do not see what the server writes by itself, such as the objects
    /// that every cluster has: a server could not start while a webhook that it needs is down.
    pub(crate) fn calls(&self, user: &UserInfo) -> Calls {
        let calls = self.dynamic.calls();
        if user.username == SELF { calls.none() } else { calls }
    }

    /// Whether admission policies took several milliseconds for one request so far.
    pub(crate) fn is_costly(&self) -> bool {
        self.dynamic.is_costly()
    }

    /// Writes what was counted, in the Prometheus text format.
    pub fn figures(&self) -> impl Fn(&mut String) + Send + Sync + 'static {
        let (figures, (webhooks, policies)) = (self.figures.clone(), self.dynamic.metrics());
        move |out| {
            figures.render(&mut Page::new(out));
            webhooks.render(&mut Page::new(out));
            policies.render(&mut Page::new(out));
        }
    }

    /// Asks the plugins one after the other until one refuses.
    fn each(
        &self,
        step: &'static str,
        subject: &Subject<'_>,
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let began = Instant::now();
        let mut last = began;
        let concerned = self.running.iter().filter(|registered| registered.concerns(subject));
        let verdict = concerned.into_iter().try_for_each(|registered| {
            let verdict = ask(registered.plugin);
            let now = Instant::now();
            self.figures.count(registered.name, step, subject.operation, verdict.is_err(), now - last);
            last = now;
            verdict
        });
        self.figures.count("", step, subject.operation, verdict.is_err(), last - began);
        verdict
    }

    /// Lets every plugin and webhook change `new`. The object has its defaults; after this it may lack some again.
    ///
    /// # Errors
    /// The first refusal; or that the answer of a webhook is awaited.
    pub(crate) fn mutate(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        self.mutate_in_tree(&admitted.subject, new, old)?;
        self.mutate_dynamically(admitted, new, old, |new| self.mutate_in_tree(&admitted.subject, new, old))
    }

    /// Lets every policy and webhook change `new`; `between` runs before each round but the first.
    fn mutate_dynamically(
        &self,
        admitted: &Admitted<'_>,
        new: &mut Value,
        old: Option<&Value>,
        between: impl Fn(&mut Value) -> Result<(), Status>,
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

    /// Gives a binding of a pod the labels of its node's place, which the pod takes over.
    pub(crate) fn label_binding(&self, binding: &mut Value) {
        if self.running.iter().any(|registered| registered.name == pod_topology_labels::NAME) {
            pod_topology_labels::label_binding(&*self.cluster, binding);
        }
    }

    /// Checks what a node posts to a subresource, such as an eviction or a request for a token. No other plugin has rules about these.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn restrict_node(&self, subject: &Subject<'_>, posted: &Value) -> Result<(), Status> {
        if !self.runs(NODE_RESTRICTION) {
            return Ok(());
        }
        node_restriction::restrict(&*self.cluster, subject, Some(posted), None)
    }

    /// Shows what is not stored as it is, such as a binding or the options of a stream, to webhooks alone.
    ///
    /// # Errors
    /// The first refusal; or that the answer of a webhook is awaited.
    pub(crate) fn admit_dynamic(
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

    /// Asks every plugin and webhook about the final object; for a deletion `new` is absent, and mutating webhooks are asked as well.
    ///
    /// # Errors
    /// The first refusal; or that the answers of webhooks are awaited.
    pub(crate) fn validate(
        &self,
        admitted: &Admitted<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Undecided> {
        if new.is_none() && admitted.may_match() && self.runs(MUTATING_WEBHOOK) {
            dynamic::mutating::mutate(&*self.cluster, admitted, None, old, &mut Reinvocation::new())?;
        }
        let mut remarks = Remarks { is_recorded: audit::is_recording(), ..Remarks::default() };
        let verdict = self.validate_in_tree(&admitted.subject, new, old, &mut remarks);
        admitted.calls.take(remarks);
        verdict?;
        self.validate_dynamically(admitted, new, old)
    }

    /// Lets every plugin of the server change `new`.
    ///
    /// # Errors
    /// The first refusal.
    pub fn mutate_in_tree(
        &self,
        subject: &Subject<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let _span = tracing::debug_span!("admission", phase = "mutate").entered();
        self.each("admit", subject, |plugin| plugin.mutate(&*self.cluster, subject, new, old))
    }

    /// Asks every plugin of the server about the final object; for a deletion `new` is absent.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) fn validate_in_tree(
        &self,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
        remarks: &mut Remarks,
    ) -> Result<(), Status> {
        let _span = tracing::debug_span!("admission", phase = "validate").entered();
        self.each("validate", subject, |plugin| plugin.review(&*self.cluster, subject, new, old, remarks))
    }
}

/// A row that the table is known to have.
fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).expect("plugins name rows of the table")
}
