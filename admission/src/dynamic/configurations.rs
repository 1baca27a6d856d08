//! [`ConfigurationCache`]: the webhook configurations and policies, stored ones and those from files, compiled again when one changes.

use super::reviews::named_in_vain;
use crate::manifests::{LoadedManifests, ManifestFolder};
use kstore_api::admission::manifests::{ManifestPlugin, Manifests};
use kstore_api::admission::policy::mutating::MutatingPolicies;
use kstore_api::admission::policy::validating::ValidatingPolicies;
use kstore_api::admission::{Hooks, Operation, Phase};
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_nondet::Clock;
use kstore_registry::lookup::Lookup;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// All webhook configurations and policies, compiled.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    pub(crate) mutating_hooks: Hooks,
    pub(crate) validating_hooks: Hooks,
    pub(crate) mutating_policies: MutatingPolicies,
    pub(crate) validating_policies: ValidatingPolicies,
}

impl Configurations {
    /// Whether policies have taken several milliseconds for one request.
    pub(super) fn is_costly(&self) -> bool {
        self.mutating_policies.is_costly() || self.validating_policies.is_costly()
    }

    /// Whether a request of this operation and plural may match a webhook or policy.
    pub(super) fn may_match(&self, operation: Operation, plural: &str) -> bool {
        self.mutating_hooks.has_candidates(operation, plural)
            || self.validating_hooks.has_candidates(operation, plural)
            || self.mutating_policies.has_candidates(operation, plural)
            || self.validating_policies.has_candidates(operation, plural)
    }
}

/// The kinds of configurations, in the order of [`Versions`].
const KINDS: [&str; 6] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The versions of the kinds from which configurations were compiled.
type Versions = [i64; KINDS.len()];

/// The last compiled configurations, and what they were compiled from.
#[derive(Default)]
struct CompiledState {
    versions: Versions,
    manifests: Vec<Arc<LoadedManifests>>,
    compiled: Arc<Configurations>,
    /// The configurations with rules that have no effect, which the log names.
    in_vain: BTreeSet<VainRules>,
}

/// The kind and name of a webhook configuration, and the reviews that its rules name.
type VainRules = (String, String, Vec<String>);

/// The configurations of one server.
#[derive(Default)]
pub(super) struct ConfigurationCache {
    state: Mutex<CompiledState>,
    /// Folders with further configurations; set once, before the first request.
    folders: OnceLock<Vec<Arc<ManifestFolder>>>,
}

impl ConfigurationCache {
    /// Adds the webhooks and policies of these folders.
    pub(super) fn follow(&self, folders: Vec<Arc<ManifestFolder>>) {
        // A second call, for which there is no use, changes nothing.
        let _ = self.folders.set(folders);
    }

    /// The folders with static manifests.
    pub(super) fn folders(&self) -> &[Arc<ManifestFolder>] {
        self.folders.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The webhooks and policies as currently configured.
    pub(super) fn now(&self, cluster: &dyn Lookup, clock: &Clock) -> Arc<Configurations> {
        // Read before the objects: a change in between is compiled again next time.
        let versions = rows().map(|row| cluster.version(row));
        let manifests: Vec<_> = self.folders().iter().map(|folder| folder.now(clock)).collect();
        let mut state = self.state.lock();
        let is_same = |(a, b): (&Arc<LoadedManifests>, &Arc<LoadedManifests>)| Arc::ptr_eq(a, b);
        let are_same =
            state.manifests.len() == manifests.len() && state.manifests.iter().zip(&manifests).all(is_same);
        if state.versions != versions || !are_same {
            let compiled = Arc::new(self.compile(cluster, &manifests));
            let in_vain = vain_rules(cluster);
            for (kind, name, resources) in in_vain.difference(&state.in_vain) {
                let resources = resources.join(" ");
                tracing::info!(
                    kind,
                    name,
                    resources,
                    "rules of the webhook configuration name reviews, which webhooks do not see: they have no effect"
                );
            }
            *state = CompiledState { versions, manifests, compiled, in_vain };
        }
        state.compiled.clone()
    }

    fn compile(&self, cluster: &dyn Lookup, loaded: &[Arc<LoadedManifests>]) -> Configurations {
        let none = Manifests::default();
        let of = |plugin: ManifestPlugin| {
            let mut all = self.folders().iter().zip(loaded);
            let own = all.find(|(folder, _)| folder.plugin() == plugin);
            own.map_or(&none, |(_, loaded)| &loaded.manifests)
        };
        let stored = rows().map(|row| cluster.list(row, ""));
        let [mutating, validating, policies, bindings, validating_policies, validating_bindings] =
            stored.each_ref().map(|objects| objects.iter().map(|object| &**object).collect::<Vec<&Value>>());
        let hooks = |phase, plugin, stored| Hooks::with_static(phase, &of(plugin).configurations, stored);
        Configurations {
            mutating_hooks: hooks(Phase::Mutating, ManifestPlugin::MutatingWebhooks, mutating),
            validating_hooks: hooks(Phase::Validating, ManifestPlugin::ValidatingWebhooks, validating),
            mutating_policies: MutatingPolicies::with_static(
                of(ManifestPlugin::MutatingPolicies),
                policies,
                bindings,
            ),
            validating_policies: ValidatingPolicies::with_static(
                of(ManifestPlugin::ValidatingPolicies),
                validating_policies,
                validating_bindings,
            ),
        }
    }
}

/// The stored webhook configurations with rules that have no effect.
fn vain_rules(cluster: &dyn Lookup) -> BTreeSet<VainRules> {
    let kinds = cluster.kinds();
    let [mutating, validating, ..] = rows();
    let of_kind = |row: &'static Resource| {
        let named = |configuration: &Value| {
            let reviews = named_in_vain(configuration, kinds.rows());
            (!reviews.is_empty())
                .then(|| (row.kind.to_owned(), meta::name(configuration).to_owned(), reviews))
        };
        cluster.list(row, "").iter().filter_map(|configuration| named(configuration)).collect::<Vec<_>>()
    };
    [mutating, validating].into_iter().flat_map(of_kind).collect()
}

fn rows() -> [&'static Resource; KINDS.len()] {
    static ROWS: OnceLock<[&'static Resource; KINDS.len()]> = OnceLock::new();
    *ROWS.get_or_init(|| {
        KINDS.map(|plural| {
            let row = kind::lookup("admissionregistration.k8s.io", "v1", plural);
            row.expect("the configurations of admission are in the table of kinds")
        })
    })
}
