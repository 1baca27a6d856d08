//! [`Admission`]: what the pipeline calls. Runs the phases of a request over the enabled plugins.

use crate::chain::Chain;
use crate::configured::ConfiguredPlugins;
use crate::dynamic::{Admitted, Calls, Dynamic};
use crate::metrics::AdmissionMetrics;
use crate::plugin::{Body, Phase, Plugin, Review};
use crate::policy_lookup::PolicyLookup;
use crate::registered::PluginSwitches;
use crate::subject::Subject;
use kstore_access::authz::Authorizer;
use kstore_api::admission::Reinvocation;
use kstore_api::quota::LimitedResource;
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::Outbound;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::{SELF, UserInfo};
use serde_json::Value;
use std::cell::RefCell;
use std::sync::Arc;

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
        self.dynamic.follow(configured.manifests());
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
        let dynamic = self.dynamic.clone();
        move |out| {
            metrics.render(&mut Page::new(out));
            dynamic.render_manifests(&mut Page::new(out));
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
        let review = self.review(admitted, old, &rounds, Body::Stored);
        self.mutate_in_rounds(&review, new)?;
        self.run(Phase::Complete, &review, |plugin| plugin.complete(&review, new))
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
        let review = self.review(admitted, old, &rounds, Body::Stored);
        if new.is_none() {
            let mut none = Value::Null;
            self.run(Phase::Mutate, &review, |plugin| plugin.mutate(&review, &mut none))?;
        }
        self.run(Phase::Validate, &review, |plugin| plugin.validate(&review, new))
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
        let review = self.review(admitted, old, &rounds, Body::Unstored);
        self.mutate_in_rounds(&review, new)?;
        self.run(Phase::Validate, &review, |plugin| plugin.validate(&review, Some(new)))
    }

    fn review<'a>(
        &'a self,
        admitted: &'a Admitted<'a>,
        old: Option<&'a Value>,
        rounds: &'a RefCell<Reinvocation>,
        body: Body,
    ) -> Review<'a> {
        Review { cluster: &*self.cluster, subject: &admitted.subject, old, admitted, rounds, body }
    }

    /// Applies the plugins to `new` until no webhook or policy asks for another round.
    fn mutate_in_rounds(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        loop {
            self.run(Phase::Mutate, review, |plugin| plugin.mutate(review, new))?;
            if !review.rounds.borrow_mut().start_second_round() {
                return Ok(());
            }
        }
    }

    fn run(
        &self,
        phase: Phase,
        review: &Review<'_>,
        ask: impl FnMut(&dyn Plugin) -> Result<(), Undecided>,
    ) -> Result<(), Undecided> {
        let _span = tracing::debug_span!("admission", phase = phase.name()).entered();
        self.chain.run(phase, review, &self.metrics, ask)
    }
}

#[cfg(test)]
impl Admission {
    /// The chain of this plugin alone.
    pub(crate) fn with_plugin(self, plugin: crate::chain::RunningPlugin) -> Self {
        Self { chain: Arc::new(Chain::of(vec![plugin])), ..self }
    }
}
