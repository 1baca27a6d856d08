//! [`ConfigurationCache`]: the stored webhook configurations and policies, compiled again when one changes.

use kstore_api::admission::policy::mutating::MutatingPolicies;
use kstore_api::admission::policy::validating::ValidatingPolicies;
use kstore_api::admission::{Hooks, Operation, Phase};
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_registry::lookup::Lookup;
use parking_lot::Mutex;
use serde_json::Value;
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

/// The last compiled configurations.
#[derive(Default)]
pub(super) struct ConfigurationCache(Mutex<(Versions, Arc<Configurations>)>);

impl ConfigurationCache {
    /// The webhooks and policies as currently configured.
    pub(super) fn now(&self, cluster: &dyn Lookup) -> Arc<Configurations> {
        // Read before the objects: a change in between is compiled again next time.
        let versions = rows().map(|row| cluster.version(row));
        let mut compiled = self.0.lock();
        if compiled.0 != versions {
            *compiled = (versions, Arc::new(compile(cluster)));
        }
        compiled.1.clone()
    }
}

fn compile(cluster: &dyn Lookup) -> Configurations {
    let stored = rows().map(|row| cluster.list(row, ""));
    let [mutating, validating, policies, bindings, validating_policies, validating_bindings] =
        stored.each_ref().map(|objects| objects.iter().map(|object| &**object).collect::<Vec<&Value>>());
    Configurations {
        mutating_hooks: Hooks::new(Phase::Mutating, mutating),
        validating_hooks: Hooks::new(Phase::Validating, validating),
        mutating_policies: MutatingPolicies::new(policies, bindings),
        validating_policies: ValidatingPolicies::new(validating_policies, validating_bindings),
    }
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
