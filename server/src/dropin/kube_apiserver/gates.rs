//! Checks of `--feature-gates` and `--runtime-config`. kstore's features and APIs are fixed: a setting that agrees with them is accepted, one
//! without effect gives a warning, and one that kstore cannot ignore is refused.

use super::gate_table::{self as table, FeatureGate, GATES, Stage, gate};
use crate::dropin::{UsageError, parse_bool};
use kstore_api::kind;
use std::collections::BTreeMap;

/// Gates that are off by default in Kubernetes 1.36 and whose feature this server always has.
const PRESENT: [&str; 1] = ["MaxUnavailableStatefulSet"];

const FLAG: &str = "feature-gates";
const APIS: &str = "runtime-config";

/// Gates that `--feature-gates` names, each with its last value.
type Explicit<'a> = BTreeMap<&'a str, bool>;

/// Checks every `NAME=BOOL` of `--feature-gates` as Kubernetes 1.36 does, and returns the warnings about those without effect.
///
/// # Errors
/// A gate that Kubernetes 1.36 does not know, a locked gate with a value other than its default, or a gate that is on while a gate that
/// it needs is off.
pub(in crate::dropin) fn feature_gates(settings: &[String]) -> Result<Vec<String>, UsageError> {
    let (mut warnings, mut explicit) = (Vec::new(), Explicit::new());
    for setting in settings {
        // A prefix names the component, which is always `kube` in these programs.
        let (name, on) = gate_setting(setting.strip_prefix("kube:").unwrap_or(setting))
            .map_err(|reason| UsageError::value(FLAG, setting, reason))?;
        explicit.insert(name, on);
        let has_no_effect = if STAGES.contains(&name) {
            true
        } else if let Some(gate) = gate(name) {
            if gate.is_locked && on != gate.default {
                let locked = gate.default;
                let reason = format!("cannot set feature gate {name} to {on}, feature is locked to {locked}");
                return Err(UsageError::value(FLAG, setting, reason));
            }
            on != (gate.default || PRESENT.contains(&name))
        } else {
            return Err(UsageError::value(FLAG, setting, format!("unrecognized feature gate: {name}")));
        };
        if has_no_effect {
            warnings.push(format!("--{FLAG}={setting} has no effect: kstore cannot change this feature"));
        }
    }
    match unmet(&explicit) {
        Some(reason) => Err(UsageError::value(FLAG, &settings.join(","), reason)),
        None => Ok(warnings),
    }
}

/// Names that set every gate of a stage that the flag does not name itself.
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// The first gate that is on although a gate that it needs is off, as Kubernetes' error text; `None` if there is none.
fn unmet(explicit: &Explicit<'_>) -> Option<String> {
    let off = |gate: &FeatureGate| {
        let off = gate
            .needs
            .split_whitespace()
            .filter(|need| table::gate(need).is_some_and(|need| !is_on(need, explicit)));
        off.collect::<Vec<_>>().join(" ")
    };
    GATES.iter().filter(|gate| is_on(gate, explicit)).find_map(|gate| {
        let off = off(gate);
        let name = gate.name;
        (!off.is_empty())
            .then(|| format!("{name} is enabled, but depends on features that are disabled: [{off}]"))
    })
}

/// Whether the gate is on in Kubernetes with these settings.
fn is_on(gate: &FeatureGate, explicit: &Explicit<'_>) -> bool {
    let stage = match gate.stage {
        Stage::Alpha => explicit.get("AllAlpha"),
        Stage::Beta => explicit.get("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    };
    *explicit.get(gate.name).or(stage).unwrap_or(&gate.default)
}

/// Checks every `API=BOOL` of `--runtime-config` and returns the warnings about those without effect.
///
/// # Errors
/// An API that kstore serves is disabled, or an API that it does not serve is enabled.
pub(super) fn runtime_config(settings: &[String]) -> Result<Vec<String>, UsageError> {
    let mut warnings = Vec::new();
    for setting in settings {
        let (name, on) = api_setting(setting)?;
        if matches!(name, "api/all" | "api/ga" | "api/beta" | "api/alpha" | "api/legacy") {
            if on || name == "api/alpha" {
                let what = "kstore serves the same APIs with and without it";
                warnings.push(format!("--{APIS}={setting} has no effect: {what}"));
                continue;
            }
            return Err(UsageError::value(APIS, setting, "kstore cannot disable APIs"));
        }
        match (is_served(name), on) {
            (true, true) | (false, false) => {}
            (true, false) => {
                return Err(UsageError::value(APIS, setting, "kstore cannot disable APIs"));
            }
            (false, true) => {
                let reason = "kstore does not serve this API; remove it from the flag";
                return Err(UsageError::value(APIS, setting, reason));
            }
        }
    }
    Ok(warnings)
}

/// Parses `NAME=BOOL`; the error is Kubernetes' text.
fn gate_setting(setting: &str) -> Result<(&str, bool), String> {
    let Some((name, value)) = setting.split_once('=') else {
        return Err(format!("missing bool value for {}", setting.trim()));
    };
    let (name, value) = (name.trim(), value.trim());
    match parse_bool(value) {
        Some(on) => Ok((name, on)),
        None => Err(format!("invalid value of {name}={value}: expected true or false")),
    }
}

/// Parses `API=BOOL`; an API without a value is enabled.
fn api_setting(setting: &str) -> Result<(&str, bool), UsageError> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    match parse_bool(value) {
        Some(on) => Ok((name.trim(), on)),
        None => Err(UsageError::value(APIS, setting, "expected API=true or API=false")),
    }
}

/// Whether kstore serves a `group/version`, a `version` of the core group, or a `group/version/resource`.
fn is_served(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [version] => kind::versions("").any(|served| served == version),
        [group, version] => kind::versions(group).any(|served| served == version),
        [group, version, plural] => kind::lookup(group, version, plural).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Result<Vec<String>, String> {
        let settings: Vec<String> = text.split(',').map(str::to_owned).collect();
        feature_gates(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_that_kstore_cannot_change_give_a_warning() {
        for silent in [
            "SidecarContainers=true,GenericWorkload=false",
            "MutatingAdmissionPolicy=true,kube:WatchList=true",
            "MaxUnavailableStatefulSet=true",
            "DynamicResourceAllocation=true,DRAConsumableCapacity=true",
        ] {
            assert_eq!(gates(silent), Ok(vec![]), "{silent}");
        }
        for warned in [
            "CrossNamespaceVolumeDataSource=true",
            "MutatingAdmissionPolicy=false",
            "MaxUnavailableStatefulSet=false",
            "AllAlpha=false",
        ] {
            assert_eq!(gates(warned).unwrap().len(), 1, "{warned}");
        }
    }

    #[test]
    fn refused_gates_have_the_error_texts_of_kubernetes() {
        for (setting, reason) in [
            ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
            // Removed in 1.36; a test suite for an older release may still name it.
            ("ValidatingAdmissionPolicy=true", "unrecognized feature gate: ValidatingAdmissionPolicy"),
            (
                "SidecarContainers=false",
                "cannot set feature gate SidecarContainers to false, feature is locked to true",
            ),
            (
                "GitRepoVolumeDriver=true",
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
            ),
            (
                "GangScheduling=true",
                "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
            ),
            (
                "APIServerIdentity=false",
                "UnknownVersionInteroperabilityProxy is enabled, but depends on features that are disabled: [APIServerIdentity]",
            ),
            ("SidecarContainers", "missing bool value for SidecarContainers"),
            ("WatchList=perhaps", "invalid value of WatchList=perhaps"),
        ] {
            let error = gates(setting).unwrap_err();
            assert!(error.contains(reason), "{setting}: {error}");
        }
        assert_eq!(gates("GangScheduling=true,GenericWorkload=true").unwrap().len(), 2);
    }

    #[test]
    fn every_gate_can_be_looked_up_and_accepts_its_default() {
        for (before, after) in GATES.iter().zip(&GATES[1..]) {
            assert!(before.name < after.name, "{} and {} are out of order", before.name, after.name);
        }
        for gate in GATES {
            let FeatureGate { name, stage, default, is_locked, needs } = *gate;
            assert_eq!(table::gate(name).map(|found| found.name), Some(name));
            assert!(
                !(stage == Stage::Alpha && (default || is_locked)),
                "{name}: alpha gates are off and not locked"
            );
            assert!(!(stage == Stage::Beta && is_locked), "{name}: beta gates are not locked");
            for need in needs.split_whitespace() {
                assert!(table::gate(need).is_some(), "{name} needs {need}");
            }
            let has_warning = default != (default || PRESENT.contains(&name));
            let repeated = gates(&format!("{name}={default}")).map(|warnings| !warnings.is_empty());
            assert_eq!(repeated, Ok(has_warning), "{name}={default}");
            let other = gates(&format!("{name}={}", !default));
            assert!(!is_locked || other.is_err(), "{name} is locked");
        }
        assert_eq!(unmet(&Explicit::new()), None, "the defaults are consistent");
    }

    #[test]
    fn apis_that_are_not_served_cannot_be_enabled() {
        let apis = |text: &str| runtime_config(&[text.to_owned()]).map_err(|error| error.to_string());
        assert_eq!(apis("apps/v1=true"), Ok(vec![]));
        assert_eq!(apis("v1"), Ok(vec![]));
        assert_eq!(apis("api/all=true").unwrap().len(), 1);
        assert!(apis("scheduling.k8s.io/v9=true").unwrap_err().contains("does not serve"));
        assert!(apis("apps/v1=false").unwrap_err().contains("cannot disable APIs"));
        assert!(apis("api/all=false").unwrap_err().contains("cannot disable APIs"));
    }
}
