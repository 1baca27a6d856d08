//! [`Effect`]: what a server changes if an operator turns a feature gate on or off. Most gates of Kubernetes are about programs that kstore
//! does not have, or about features that it always or never has.

use super::opt_in;
use crate::resource::Subresource;
use crate::strategy::is_gate_of_members;
use crate::validate::is_gate_of_rules;
use crate::version::Minor;

/// What a server changes with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The feature: with the gate a server has all of it that kstore has.
    Feature,
    /// What the API keeps, accepts and permits. No other part of kstore has a switch for the feature.
    Api,
    /// Nothing.
    None,
}

/// Gates of features that the API alone has, or whose switch is at the place that has the feature.
const FEATURES: [&str; 8] = [
    "DRAResourceClaimGranularStatusAuthorization",
    "ExcludeAdmissionWebhookVirtualResources",
    "HPAGeneration",
    "HPAScaleToZero",
    "MaxUnavailableStatefulSet",
    "RelaxedServiceNameValidation",
    "StrictIPCIDRValidation",
    "WatchList",
];

/// Gates that decide about accepted values and about permissions of default roles, of features that other programs have.
const PERMISSIONS: [&str; 4] = [
    "ComponentFlagz",
    "ComponentStatusz",
    "KubeletServiceAccountTokenForCredentialProviders",
    "SELinuxMount",
];

impl Effect {
    /// The effect of a gate in a version, as far as the API, its default roles and the controllers have it. Other programs, such as the
    /// scheduler, have gates of their own.
    #[must_use]
    pub fn of(minor: Minor, gate: &str) -> Self {
        if opt_in::is_gate(gate) || FEATURES.contains(&gate) || is_of_subresource(gate) {
            return Self::Feature;
        }
        match PERMISSIONS.contains(&gate) || is_gate_of_rules(gate) || is_gate_of_members(minor, gate) {
            true => Self::Api,
            false => Self::None,
        }
    }
}

/// Whether a server has a subresource only with this gate.
fn is_of_subresource(gate: &str) -> bool {
    let is_gated = |sub: &Subresource| sub.gate == gate;
    super::every().any(|row| row.subresources.iter().any(is_gated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate;

    #[test]
    fn every_listed_gate_is_one_that_a_version_can_turn() {
        for name in FEATURES.iter().chain(&PERMISSIONS) {
            let can_turn = |minor| gate::find(minor, name).is_some_and(|gate| !gate.is_locked);
            assert!(Minor::ALL.into_iter().any(can_turn), "{name}");
            // `GateSet::has` is false for a gate that a version does not know, so that a version may not forget a gate that is asked for.
            assert!(gate::find(Minor::ALL[Minor::ALL.len() - 1], name).is_some(), "{name}");
        }
        assert!(FEATURES.is_sorted() && PERMISSIONS.is_sorted());
    }

    #[test]
    fn gates_have_the_effect_of_what_asks_for_them() {
        for (gate, effect) in [
            ("GenericWorkload", Effect::Feature),
            ("InPlacePodVerticalScaling", Effect::Feature),
            ("HPAScaleToZero", Effect::Feature),
            ("EnvFiles", Effect::Api),
            ("SELinuxMount", Effect::Api),
            ("NativeHistograms", Effect::None),
            ("NoSuchGate", Effect::None),
        ] {
            assert_eq!(Effect::of(Minor::V36, gate), effect, "{gate}");
        }
    }

    #[test]
    fn pods_are_resized_with_the_gate_alone() {
        use crate::gate::GateSet;
        use crate::kind::{Kinds, OptIn};
        for (minor, is_changeable) in [(Minor::V33, true), (Minor::V37, false)] {
            let gates = GateSet::of(minor, |gate| {
                gate.is_on && (gate.is_locked || gate.name != "InPlacePodVerticalScaling")
            });
            let has = |opt_in: OptIn| {
                let kinds = Kinds::new(opt_in, &[], &[]);
                kinds.lookup("", "v1", "pods").unwrap().subresource("resize").is_some()
            };
            assert!(has(OptIn::version(minor)), "{minor}");
            assert_eq!(has(OptIn::version(minor).with_gates(gates)), !is_changeable, "{minor}");
        }
    }
}
