//! `--feature-gates` and `--runtime-config`, by tables: what kstore does is fixed, so that a setting is either what it does anyway,
//! has no effect (a warning), or would make a difference and is refused.

use super::gate_table::{self as table, FeatureGate, GATES, Stage, gate};
use crate::dropin::{UsageError, parse_bool};
use kstore_api::kind;
use std::collections::BTreeMap;

/// Gates that are off by default in Kubernetes 1.36 and whose feature this server always has.
const PRESENT: [&str; 1] = ["MaxUnavailableStatefulSet"];

const FLAG: &str = "feature-gates";
const APIS: &str = "runtime-config";

/// The values that `--feature-gates` gives, the last one for a gate that it names twice.
type Explicit<'a> = BTreeMap<&'a str, bool>;

/// Checks every `NAME=BOOL` of `--feature-gates` as Kubernetes 1.36 does, and returns the warnings about those without effect.
///
/// # Errors
/// A name that Kubernetes 1.36 does not know, a locked gate that would leave its default, and a gate that is on while one that it needs
/// is off.
pub(in crate::dropin) fn feature_gates(settings: &[String]) -> Result<Vec<String>, UsageError> {
    let (mut warnings, mut explicit) = (Vec::new(), Explicit::new());
    for setting in settings {
        // A prefix names the component; these programs have one, `kube`.
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
            warnings.push(format!("--{FLAG}={setting} has no effect: kstore cannot switch this feature"));
        }
    }
    match unmet(&explicit) {
        Some(reason) => Err(UsageError::value(FLAG, &settings.join(","), reason)),
        None => Ok(warnings),
    }
}

/// The names that switch every gate of a stage which the flag does not name.
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// The first gate that is on although one that it needs is off, as Kubernetes puts it.
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

/// Whether Kubernetes would have the feature on.
fn is_on(gate: &FeatureGate, explicit: &Explicit<'_>) -> bool {
    let stage = match gate.stage {
        Stage::Alpha => explicit.get("AllAlpha"),
        Stage::Beta => explicit.get("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    };
    *explicit.get(gate.name).or(stage).unwrap_or(&gate.default)
}

/// Checks every `API=BOOL` of `--runtime-config`: the warnings about those without effect.
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
            return Err(UsageError::value(APIS, setting, "kstore cannot switch its APIs off"));
        }
        match (is_served(name), on) {
            (true, true) | (false, false) => {}
            (true, false) => {
                return Err(UsageError::value(APIS, setting, "kstore cannot switch its APIs off"));
            }
            (false, true) => {
                let reason = "kstore does not serve this API; leave it out, or take tests of it elsewhere";
                return Err(UsageError::value(APIS, setting, reason));
            }
        }
    }
    Ok(warnings)
}

/// The gate and value of a `NAME=BOOL`, or what is wrong with it.
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

/// An `API=BOOL`; an API alone is switched on.
fn api_setting(setting: &str) -> Result<(&str, bool), UsageError> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    match parse_bool(value) {
        Some(on) => Ok((name.trim(), on)),
        None => Err(UsageError::value(APIS, setting, "expected API=true or API=false")),
    }
}

/// Whether there is this `group/version`, `version` of the core group, or `group/version/resource`.
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
    fn gates_that_repeat_what_kstore_does_are_silent_and_others_are_warned_of() {
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
    fn gates_are_refused_in_the_words_of_kubernetes() {
        for (setting, reason) in [
            ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
            // Gone from 1.36, as a suite for an older release may still name it.
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
    fn every_gate_of_the_table_can_be_found_and_repeats_its_default() {
        for (before, after) in GATES.iter().zip(&GATES[1..]) {
            assert!(before.name < after.name, "{} and {} are out of order", before.name, after.name);
        }
        for gate in GATES {
            let FeatureGate { name, stage, default, is_locked, needs } = *gate;
            assert_eq!(table::gate(name).map(|found| found.name), Some(name));
            assert!(
                !(stage == Stage::Alpha && (default || is_locked)),
                "{name}: alpha gates are off and free"
            );
            assert!(!(stage == Stage::Beta && is_locked), "{name}: beta gates are free");
            for need in needs.split_whitespace() {
                assert!(table::gate(need).is_some(), "{name} needs {need}");
            }
            let is_told = default != (default || PRESENT.contains(&name));
            let repeated = gates(&format!("{name}={default}")).map(|warnings| !warnings.is_empty());
            assert_eq!(repeated, Ok(is_told), "{name}={default}");
            let other = gates(&format!("{name}={}", !default));
            assert!(!is_locked || other.is_err(), "{name} is locked");
        }
        assert_eq!(unmet(&Explicit::new()), None, "the defaults are consistent");
    }

    #[test]
    fn apis_that_are_not_served_cannot_be_switched_on() {
        let apis = |text: &str| runtime_config(&[text.to_owned()]).map_err(|error| error.to_string());
        assert_eq!(apis("apps/v1=true"), Ok(vec![]));
        assert_eq!(apis("v1"), Ok(vec![]));
        assert_eq!(apis("api/all=true").unwrap().len(), 1);
        assert!(apis("scheduling.k8s.io/v9=true").unwrap_err().contains("does not serve"));
        assert!(apis("apps/v1=false").unwrap_err().contains("cannot switch its APIs off"));
        assert!(apis("api/all=false").unwrap_err().contains("cannot switch its APIs off"));
    }
}
