//! What an admission plugin is: the trait [`Plugin`] with a method per phase, and the [`Row`] with the facts
//! about the plugin. No plugin is named here: each has a file in `plugins`, and the list is there.

mod configuration;

use crate::dynamic::{Admitted, Calls};
use crate::subject::Subject;
pub use configuration::ConfigurationContext;
use configuration::Unconfigured;
pub(crate) use configuration::{Configuration, manifest_folder, read_document};
use kstore_access::authz::policy::Policy;
use kstore_api::admission::{Operation, Reinvocation};
use kstore_api::quota::LimitedResource;
use kstore_api::resource::Resource;
use kstore_registry::kinds::Kinds;
use kstore_registry::lookup::Lookup;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::SELF;
use serde_json::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// The cluster as plugins see it: its objects, and its roles and bindings.
pub(crate) trait Cluster: Lookup {
    /// The roles and bindings.
    fn policy(&self) -> Arc<Policy>;
}

/// When a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Once before the first decision about a new object: [`Plugin::prepare`].
    Prepare,
    /// In each round of changes: [`Plugin::mutate`]. A second round follows if a webhook or policy asks for it.
    Mutate,
    /// Once after the last round: [`Plugin::complete`].
    Complete,
    /// Once, on the final object: [`Plugin::validate`].
    Validate,
}

impl Phase {
    /// All phases, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Prepare, Self::Mutate, Self::Complete, Self::Validate];

    /// The name of the phase in traces.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Mutate => "mutate",
            Self::Complete => "complete",
            Self::Validate => "validate",
        }
    }

    /// The step of the phase in metrics, as in Kubernetes.
    pub(crate) fn step(self) -> &'static str {
        match self {
            Self::Prepare | Self::Mutate | Self::Complete => "admit",
            Self::Validate => "validate",
        }
    }
}

/// Whether a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enabled {
    /// On every server. In Kubernetes the rule is not a plugin but part of the storage of its kind, so that no
    /// flag names it.
    Always,
    /// Unless a flag disables it.
    ByDefault,
    /// Only if a flag enables it.
    OnRequest,
}

/// Which bodies of requests a plugin reviews besides objects that are stored as sent: bindings, evictions,
/// token requests, scales, objects that are answered and not stored, and the options of streams.
#[derive(Clone, Copy)]
pub(crate) enum Unstored {
    /// None.
    Ignored,
    /// All, on the state of the cluster that the watch cache shows.
    Reviewed,
    /// Those of the requests for which the function holds, on the newest state of the cluster.
    ReviewedOnNewest(fn(&Subject<'_>) -> bool),
}

/// The facts about a plugin. Nothing outside the plugin's file repeats them.
pub(crate) struct Row {
    /// The plugin's name in flags, configurations and metrics: that of Kubernetes.
    pub(crate) name: &'static str,
    /// Whether the plugin runs.
    pub(crate) enabled: Enabled,
    /// Makes the plugin without a configuration, once for each API server.
    pub(crate) plugin: fn() -> Arc<dyn Plugin>,
    /// The configuration of the plugin in `--admission-control-config-file`.
    pub(crate) configuration: Configuration,
    /// Group and plural of the kinds that the plugin reviews; empty: all kinds.
    pub(crate) kinds: &'static [(&'static str, &'static str)],
    /// The subresources that the plugin reviews, "" for the objects themselves; empty: all of them.
    pub(crate) subresources: &'static [&'static str],
    /// The operations before which [`Plugin::prepare`] runs.
    pub(crate) prepares: &'static [Operation],
    /// The operations in which [`Plugin::mutate`] runs.
    pub(crate) mutates: &'static [Operation],
    /// The operations in which [`Plugin::complete`] runs.
    pub(crate) completes: &'static [Operation],
    /// The operations in which [`Plugin::validate`] runs.
    pub(crate) validates: &'static [Operation],
    /// Which bodies the plugin reviews besides stored objects.
    pub(crate) unstored: Unstored,
    /// Whether objects of the cluster configure the plugin's rules: [`Calls::may_match`] says whether one of
    /// them may match a request. Their metrics are those of their calls and checks.
    pub(crate) is_dynamic: bool,
    /// Whether a decision of the plugin may wait for a server outside the process. Such a plugin reviews only
    /// requests that webhooks review.
    pub(crate) may_wait: bool,
    /// Whether the plugin checks that the user's roles permit more than the request itself needs. Without
    /// authorization there is nothing to check.
    pub(crate) checks_roles: bool,
    /// Whether the plugin has nothing to say about such an update if it only renews a Lease, that is, changes
    /// `spec.renewTime`. The pipeline stores such an update without a decision if no plugin would make one.
    pub(crate) ignores_renewal: fn(&Subject<'_>) -> bool,
    /// Whether new objects may wait for initializers: the pipeline hides such objects, and their creators wait.
    pub(crate) initializes: bool,
    /// The kinds that a server with the plugin serves; the argument is those of a server without it.
    pub(crate) served: fn(Kinds) -> Kinds,
}

impl Row {
    /// The row of a plugin that runs only if a flag enables it, reviews objects of all kinds and has no phase.
    pub(crate) const fn new(name: &'static str, plugin: fn() -> Arc<dyn Plugin>) -> Self {
        Self {
            name,
            enabled: Enabled::OnRequest,
            plugin,
            configuration: Configuration::None,
            kinds: &[],
            subresources: &[""],
            prepares: &[],
            mutates: &[],
            completes: &[],
            validates: &[],
            unstored: Unstored::Ignored,
            is_dynamic: false,
            may_wait: false,
            checks_roles: false,
            ignores_renewal: |_| false,
            initializes: false,
            served: |kinds| kinds,
        }
    }

    /// The row of a plugin that refuses what it reviews until it is configured.
    pub(crate) const fn unconfigured(name: &'static str) -> Self {
        Self::new(name, || Arc::new(Unconfigured))
    }

    /// Whether the plugin runs in this phase of such requests.
    pub(crate) fn reviews(&self, phase: Phase, subject: &Subject<'_>) -> bool {
        self.operations(phase).contains(&subject.operation)
            && self.reviews_subresource(subject.subresource)
            && self.reviews_kind(subject.resource)
    }

    /// Whether the plugin runs in this phase of any request.
    pub(crate) fn runs_in(&self, phase: Phase) -> bool {
        !self.operations(phase).is_empty()
    }

    /// Every write asks each plugin, mostly about an object itself: no texts are compared then.
    fn reviews_subresource(&self, subresource: &str) -> bool {
        self.subresources.is_empty()
            || match subresource.is_empty() {
                true => self.subresources.iter().any(|reviewed| reviewed.is_empty()),
                false => self.subresources.contains(&subresource),
            }
    }

    fn operations(&self, phase: Phase) -> &'static [Operation] {
        match phase {
            Phase::Prepare => self.prepares,
            Phase::Mutate => self.mutates,
            Phase::Complete => self.completes,
            Phase::Validate => self.validates,
        }
    }

    fn reviews_kind(&self, resource: &Resource) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|(group, plural)| resource.is(group, plural))
    }

    /// Whether a decision about such requests may wait for a server.
    pub(crate) fn may_wait(&self, operation: Operation, resource: &Resource) -> bool {
        let reviews = |phase| self.operations(phase).contains(&operation);
        self.may_wait
            && [Phase::Mutate, Phase::Complete, Phase::Validate].into_iter().any(reviews)
            && self.reviews_kind(resource)
    }
}

/// Whether the body of a request is stored as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Stored,
    Unstored,
}

/// A request under review, without its new object.
#[derive(Clone, Copy)]
pub(crate) struct Review<'a> {
    /// The cluster, with the writes that the request's transaction has made so far.
    pub(crate) cluster: &'a dyn Cluster,
    /// The request without its objects.
    pub(crate) subject: &'a Subject<'a>,
    /// The stored object, if there is one.
    pub(crate) old: Option<&'a Value>,
    /// The request as webhooks see it.
    pub(crate) admitted: &'a Admitted<'a>,
    /// Which webhooks and policies have run, and the round of changes.
    pub(crate) rounds: &'a RefCell<Reinvocation>,
    /// Whether the body of the request is stored as sent.
    pub(crate) body: Body,
}

impl<'a> Review<'a> {
    /// The calls that the request has made.
    pub(crate) fn calls(&self) -> &'a Calls {
        self.admitted.calls
    }

    /// Whether the server itself sends the request.
    pub(crate) fn is_own(&self) -> bool {
        self.subject.user.username == SELF
    }

    /// Adds texts for `Warning` headers.
    pub(crate) fn warn(&self, texts: &[String]) {
        self.calls().warn(texts);
    }

    /// Adds an audit annotation with this name and value, if the request is audited.
    pub(crate) fn annotate(&self, annotation: impl FnOnce() -> (String, String)) {
        self.calls().annotate(annotation);
    }
}

/// An admission plugin. `new` is the object as the request and earlier plugins have made it. The methods are
/// synchronous, and run again if a decision has to wait: see [`Undecided`].
pub(crate) trait Plugin: Send + Sync {
    /// An object that must exist before a new object is decided about, such as its namespace. The server
    /// creates it if it does not exist.
    fn prepare(&self, cluster: &dyn Cluster, subject: &Subject<'_>) -> Option<Value> {
        let _ = (cluster, subject);
        None
    }

    /// Changes the object, or refuses the request. `new` is null for a deletion.
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let _ = (review, new);
        Ok(())
    }

    /// Changes the object after all plugins, webhooks and policies have, or refuses the request.
    fn complete(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let _ = (review, new);
        Ok(())
    }

    /// Refuses invalid requests. `new` is absent for a deletion.
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let _ = (review, new);
        Ok(())
    }

    /// The kinds whose objects need a quota that covers them, if the registry charges quotas because of this
    /// plugin. A charge is part of the commit of the charged object, so that no method here can make it.
    fn limited_resources(&self) -> Option<Arc<[LimitedResource]>> {
        None
    }
}
