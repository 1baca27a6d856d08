//! Checks of `--feature-gates` and `--runtime-config`. A gate decides what kstore has of its feature: what the API keeps and permits, and
//! where it is there a switch of the feature itself. A setting without effect gives a warning, and one that kstore cannot ignore is
//! refused. `opt_in` turns optional APIs and their features on.

use super::FlagError;
use crate::args::values::parse_bool;
use kstore_api::gate::{self, Gate, GateSet, Stage};
use kstore_api::kind::opt_in::{self, ApiSwitches};
use kstore_api::kind::{Effect, OptIn};
use kstore_api::version::Minor;
use std::collections::BTreeMap;

/// The gate of the constrained modes of impersonation.
pub(super) const CONSTRAINED_IMPERSONATION: &str = "ConstrainedImpersonation";

/// The gate of deletions of objects that cannot be read.
pub(super) const UNSAFE_DELETION: &str = "AllowUnsafeMalformedObjectDeletion";

/// The gate of the condition `Unused` of claims.
pub(crate) const UNUSED_CLAIMS: &str = "PersistentVolumeClaimUnusedSinceTime";
/// The gate of compressed watches, which Kubernetes has since 1.37.
pub(super) const WATCH_COMPRESSION: &str = "WatchListCompression";

/// Gates that versions before 1.37 have, and the gates that decide about their features since.
const MERGED: [(&str, &str); 1] = [("GangScheduling", "GenericWorkload")];

/// Gates of features that the programs of this crate turn on and off. [`Effect`] knows those of the API, and
/// [`Gates::NAMES`](kstore_scheduler::Gates::NAMES) are the scheduler's.
const SWITCHED: [&str; 4] = [CONSTRAINED_IMPERSONATION, UNSAFE_DELETION, UNUSED_CLAIMS, WATCH_COMPRESSION];

/// The gate that is on only if no older control plane runs beside the server (`--min-compatibility-version` 1.37).
const NEEDS_COMPATIBILITY: &str = "DRAFractionalCapacityRange";

const FLAG: &str = "feature-gates";
const APIS: &str = "runtime-config";

/// Gates that `--feature-gates` names, each with its last value.
type Explicit<'a> = BTreeMap<&'a str, bool>;

/// What changes with a gate.
fn effect(minor: Minor, gate: &str) -> Effect {
    match SWITCHED.contains(&gate) || kstore_scheduler::Gates::NAMES.contains(&gate) {
        true => Effect::Feature,
        false => Effect::of(minor, gate),
    }
}

/// The warning about a setting that changes a gate, if kstore does not have all of the feature. One that is off has no members in objects,
/// so no part of kstore finds any.
fn warning(minor: Minor, setting: &str, name: &str, on: bool) -> Option<String> {
    match effect(minor, name) {
        Effect::Feature => None,
        Effect::Api => on.then(|| {
            format!(
                "--{FLAG}={setting} changes what the API keeps and permits: no controller, scheduler or node of kstore has a switch for it"
            )
        }),
        Effect::None => Some(format!("--{FLAG}={setting} has no effect: kstore cannot change this feature")),
    }
}

/// The warning about a setting of all gates of a stage: how many of them it changes without effect.
fn stage_warning(minor: Minor, setting: &str, name: &str, on: bool) -> Option<String> {
    let stage = if name == STAGES[0] { Stage::Alpha } else { Stage::Beta };
    let changed = gate::all(minor).filter(|gate| gate.stage == stage && gate.is_on != on);
    let (without, all) = changed.fold((0, 0), |(without, all), gate| {
        (without + usize::from(effect(minor, gate.name) == Effect::None), all + 1)
    });
    (without > 0).then(|| {
        format!("--{FLAG}={setting} has no effect on {without} of the {all} gates that it changes: kstore cannot change these features")
    })
}

/// Checks every `NAME=BOOL` of `--feature-gates` as a version of Kubernetes does, and returns the warnings about those that kstore does not
/// have all of.
///
/// # Errors
/// A gate that the version does not know, a locked gate with a value other than its default, or a gate that is on while a gate that
/// it needs is off.
pub(crate) fn feature_gates(minor: Minor, settings: &[String]) -> Result<Vec<String>, FlagError> {
    let (mut warnings, mut explicit) = (Vec::new(), Explicit::new());
    for setting in settings {
        // A prefix names the component, which is always `kube` in these programs.
        let (name, on) = gate_setting(setting.strip_prefix("kube:").unwrap_or(setting))
            .map_err(|reason| FlagError::new(FLAG, setting, reason))?;
        explicit.insert(name, on);
        if name == NEEDS_COMPATIBILITY && gate::find(minor, name).is_some() {
            if on {
                let reason =
                    format!("{name} needs --min-compatibility-version {minor}, which kstore does not have");
                return Err(FlagError::new(FLAG, setting, reason));
            }
            continue;
        }
        if STAGES.contains(&name) {
            warnings.extend(stage_warning(minor, setting, name, on));
        } else if let Some(gate) = gate::find(minor, name) {
            if gate.is_locked && on != gate.is_on {
                let locked = gate.is_on;
                let reason = format!("cannot set feature gate {name} to {on}, feature is locked to {locked}");
                return Err(FlagError::new(FLAG, setting, reason));
            }
            if on != gate.is_on {
                warnings.extend(warning(minor, setting, name, on));
            }
        } else {
            return Err(FlagError::new(FLAG, setting, format!("unrecognized feature gate: {name}")));
        }
    }
    match unmet(minor, &explicit) {
        Some(reason) => Err(FlagError::new(FLAG, &settings.join(","), reason)),
        None => Ok(warnings),
    }
}

/// Names that set every gate of a stage that the flag does not name itself.
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// The first version that checks which gates a gate needs.
const FIRST_WITH_NEEDS: Minor = Minor::V35;

/// The first gate that is on although a gate that it needs is off, as Kubernetes' error text; `None` if there is none.
fn unmet(minor: Minor, explicit: &Explicit<'_>) -> Option<String> {
    if minor < FIRST_WITH_NEEDS {
        return None;
    }
    let off = |gate: &Gate| {
        let off = gate
            .needs
            .split_whitespace()
            .filter(|need| gate::find(minor, need).is_some_and(|need| !is_on(&need, explicit)));
        off.collect::<Vec<_>>().join(" ")
    };
    gate::all(minor).filter(|gate| is_on(gate, explicit)).find_map(|gate| {
        let off = off(&gate);
        let name = gate.name;
        (!off.is_empty())
            .then(|| format!("{name} is enabled, but depends on features that are disabled: [{off}]"))
    })
}

/// Whether the gate is on in Kubernetes with these settings.
fn is_on(gate: &Gate, explicit: &Explicit<'_>) -> bool {
    if gate.name == NEEDS_COMPATIBILITY {
        return false;
    }
    let stage = match gate.stage {
        Stage::Alpha => explicit.get("AllAlpha"),
        Stage::Beta => explicit.get("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    };
    *explicit.get(gate.name).or(stage).unwrap_or(&gate.is_on)
}

/// The optional APIs, gates and features of a version that `--runtime-config` and `--feature-gates` turn on, and the warnings about APIs
/// that stay off for want of a gate. [`feature_gates`] checks the gates.
///
/// # Errors
/// An API that every kstore server serves is disabled, or an API that kstore does not have is enabled.
pub(crate) fn opt_in(
    minor: Minor,
    apis: &[String],
    gates: &[String],
) -> Result<(OptIn, Vec<String>), FlagError> {
    let (mut switches, mut former) = (ApiSwitches::new(), Vec::new());
    for setting in apis {
        let (name, on) = api_setting(setting)?;
        if !on && disables_fixed_apis(minor, name) {
            return Err(FlagError::new(APIS, setting, "kstore cannot disable APIs"));
        }
        if on && let Some(served) = served_instead(minor, name) {
            former.push(format!(
                "--{APIS}={setting} has no effect: kstore serves {served}, and not this version of the same kinds"
            ));
            continue;
        }
        if on && !STAGES_OF_APIS.contains(&name) && !opt_in::names_api(minor, name) {
            let reason = "kstore does not serve this API; remove it from the flag";
            return Err(FlagError::new(APIS, setting, reason));
        }
        switches.insert(name, on);
    }
    let explicit = explicit(gates);
    let has_gate = |name: &str| gate::find(minor, name).is_some_and(|gate| is_on(&gate, &explicit));
    let missing = opt_in::without_gate(minor, &switches, has_gate).map(|(row, gate)| {
        let plural = row.plural;
        format!("{plural} are not served, because the feature gate {gate} is off: add --{FLAG}={gate}=true")
    });
    let warnings = former.into_iter().chain(missing).collect();
    // No code asks for the one gate that another flag turns off as well. The set of a server without flags is the default one all the same.
    let set = GateSet::of(minor, |gate| match gate.name == NEEDS_COMPATIBILITY {
        true => gate.is_on,
        false => is_on(gate, &explicit),
    });
    Ok((OptIn::of(minor, &switches, has_gate).with_gates(set), warnings))
}

/// Whether a gate is on in a version of Kubernetes, with the settings of `--feature-gates`, which [`feature_gates`] has checked.
pub(crate) fn has(minor: Minor, name: &str, settings: &[String]) -> bool {
    let merged = || MERGED.iter().find(|(former, _)| *former == name).map(|(_, gate)| *gate);
    let gate = gate::find(minor, name).or_else(|| gate::find(minor, merged()?));
    gate.is_some_and(|gate| is_on(&gate, &explicit(settings)))
}

/// The gates that the settings name.
fn explicit(settings: &[String]) -> Explicit<'_> {
    let settings = settings.iter().map(|setting| setting.strip_prefix("kube:").unwrap_or(setting));
    settings.filter_map(|setting| gate_setting(setting).ok()).collect()
}

/// The version that is served of a group whose beta version a flag names. Kubernetes serves both, with the same kinds; test suites turn
/// the beta on and use the stable one.
fn served_instead(minor: Minor, name: &str) -> Option<String> {
    let mut parts = name.split('/');
    let (group, version) = (parts.next()?, parts.next()?);
    let is_beta = version.strip_prefix('v').is_some_and(|rest| rest.contains("beta"));
    let is_stable = || opt_in::serves_api(minor, &format!("{group}/v1"));
    (is_beta && !opt_in::names_api(minor, name) && is_stable()).then(|| format!("{group}/v1"))
}

/// Names that stand for all APIs of a stage.
const STAGES_OF_APIS: [&str; 5] = ["api/all", "api/ga", "api/beta", "api/alpha", "api/legacy"];

/// Whether `name` stands for APIs that every server serves.
fn disables_fixed_apis(minor: Minor, name: &str) -> bool {
    matches!(name, "api/all" | "api/ga" | "api/legacy") || opt_in::serves_api(minor, name)
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
fn api_setting(setting: &str) -> Result<(&str, bool), FlagError> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    match parse_bool(value) {
        Some(on) => Ok((name.trim(), on)),
        None => Err(FlagError::new(APIS, setting, "expected API=true or API=false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Result<Vec<String>, String> {
        let settings: Vec<String> = text.split(',').map(str::to_owned).collect();
        feature_gates(Minor::V36, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_that_kstore_cannot_change_give_a_warning() {
        for silent in [
            "SidecarContainers=true,GenericWorkload=false",
            "MutatingAdmissionPolicy=true,kube:WatchList=true",
            "MaxUnavailableStatefulSet=true",
            "ClusterTrustBundle=true,ClusterTrustBundleProjection=true,StorageVersionMigrator=true",
            "DynamicResourceAllocation=true,DRAConsumableCapacity=true,DRADeviceBindingConditions=false",
            "SchedulerPopFromBackoffQ=false,NominatedNodeNameForExpectation=false,DRASchedulerFilterTimeout=false",
            // The defaults of their stages.
            "AllAlpha=false",
            "WatchList=false,HPAScaleToZero=true,StrictIPCIDRValidation=false",
            // Objects have no members of a feature that is off.
            "HostnameOverride=false",
        ] {
            assert_eq!(gates(silent), Ok(vec![]), "{silent}");
        }
        for warned in ["MutatingAdmissionPolicy=false", "NativeHistograms=true", "AllBeta=false"] {
            let warnings = gates(warned).unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains("has no effect"), "{warnings:?}");
        }
        for of_api in ["CrossNamespaceVolumeDataSource=true", "ContainerStopSignals=true"] {
            let warnings = gates(of_api).unwrap();
            assert!(
                warnings.len() == 1 && warnings[0].contains("changes what the API keeps"),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn the_gates_of_the_flag_are_those_of_the_server() {
        let set = |minor, text: &str| opt_in(minor, &[], &[text.to_owned()]).unwrap().0;
        assert!(opt_in(Minor::V37, &[], &[]).unwrap().0.gates().is_default());
        let agreeing = set(Minor::V36, "StrictIPCIDRValidation=true");
        assert!(agreeing.gates().is_default(), "the default version's gates");
        let changed = set(Minor::V36, "kube:StrictIPCIDRValidation=false");
        assert!(!changed.has_gate("StrictIPCIDRValidation") && changed.has_gate("WatchList"));
        let stage = set(Minor::V34, "AllAlpha=true");
        assert!(stage.has_gate("EnvFiles") && stage.has_gate("RelaxedServiceNameValidation"));
        assert!(!stage.has_gate("VolumeAttributesClassNothing"), "no version knows it");
        let beta = set(Minor::V37, "AllBeta=false");
        assert!(!beta.has_gate("HPAScaleToZero") && beta.has_gate("SELinuxMount"));
        let others = gate::all(Minor::V37).filter(|gate| gate.stage != Stage::Beta);
        assert!(others.into_iter().all(|gate| beta.has_gate(gate.name) == gate.is_on));
    }

    #[test]
    fn a_beta_version_of_kinds_that_are_served_gives_a_warning() {
        let settings =
            ["resource.k8s.io/v1beta2=true", "networking.k8s.io/v1beta1/ipaddresses"].map(str::to_owned);
        let (_, warnings) = opt_in(Minor::DEFAULT, &settings, &[]).unwrap();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("kstore serves resource.k8s.io/v1"), "{warnings:?}");
        for refused in ["apps/v9=true", "nogroup.k8s.io/v1beta1=true"] {
            assert!(opt_in(Minor::DEFAULT, &[refused.to_owned()], &[]).is_err(), "{refused}");
        }
    }

    #[test]
    fn refused_gates_have_the_error_texts_of_kubernetes() {
        for (setting, reason) in [
            ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
            // Removed; a test suite for an older release may still name it.
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
        assert_eq!(gates("GangScheduling=true,GenericWorkload=true"), Ok(vec![]));
    }

    #[test]
    fn every_gate_of_a_version_accepts_its_default() {
        for minor in Minor::SERVED {
            let gates = gate::all(minor).filter(|gate| gate.name != NEEDS_COMPATIBILITY);
            for Gate { name, is_on, is_locked, .. } in gates {
                let set = |on: bool| feature_gates(minor, &[format!("{name}={on}")]);
                assert_eq!(set(is_on), Ok(vec![]), "{minor} {name}={is_on}");
                assert!(!is_locked || set(!is_on).is_err(), "{minor}: {name} is locked");
            }
            assert_eq!(unmet(minor, &Explicit::new()), None, "the defaults are consistent");
        }
        let set = |on: bool| feature_gates(Minor::V37, &[format!("{NEEDS_COMPATIBILITY}={on}")]);
        assert_eq!(set(false), Ok(vec![]));
        let other = feature_gates(Minor::V37, &["DRAConsumableCapacity=false".to_owned()]);
        assert!(other.is_ok(), "the gate is off, so it needs no other one: {other:?}");
        assert!(set(true).unwrap_err().to_string().contains("needs --min-compatibility-version 1.37"));
    }

    #[test]
    fn a_version_knows_its_own_gates_and_checks_needed_gates_if_it_does() {
        let set = |minor, text: &str| {
            let settings: Vec<String> = text.split(',').map(str::to_owned).collect();
            feature_gates(minor, &settings).map_err(|error| error.to_string())
        };
        assert!(
            set(Minor::V33, "EnvFiles=true").unwrap_err().contains("unrecognized feature gate: EnvFiles")
        );
        assert_eq!(set(Minor::V34, "EnvFiles=false"), Ok(vec![]));
        assert!(set(Minor::V35, "EnvFiles=true").is_ok());
        assert!(set(Minor::V36, "SidecarContainers=true").is_ok());
        let gone = set(Minor::V37, "SidecarContainers=true").unwrap_err();
        assert!(gone.contains("unrecognized feature gate: SidecarContainers"), "{gone}");
        let alone = "ClusterTrustBundleProjection=true";
        assert_eq!(set(Minor::V34, alone), Ok(vec![]));
        let refused = set(Minor::V35, alone).unwrap_err();
        assert!(refused.contains("depends on features that are disabled: [ClusterTrustBundle]"), "{refused}");
    }

    #[test]
    fn apis_that_kstore_does_not_have_cannot_be_enabled_and_others_not_disabled() {
        for accepted in ["apps/v1=true", "v1", "api/all=true", "api/beta=false", "scheduling.k8s.io/v9=false"]
        {
            assert!(plurals(accepted, "").is_ok(), "{accepted}");
        }
        assert!(plurals("scheduling.k8s.io/v9=true", "").unwrap_err().contains("does not serve"));
        for refused in ["apps/v1=false", "api/all=false", "api/ga=false"] {
            assert!(plurals(refused, "").unwrap_err().contains("cannot disable APIs"), "{refused}");
        }
    }

    /// Plurals of the optional kinds that the settings turn on, and the number of warnings.
    fn plurals(apis: &str, gates: &str) -> Result<(Vec<&'static str>, usize), String> {
        let words = |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let (apis, gates): (Vec<String>, Vec<String>) = (words(apis), words(gates));
        let (opt_in, warnings) = opt_in(Minor::V36, &apis, &gates).map_err(|error| error.to_string())?;
        Ok((opt_in.rows().iter().map(|row| row.plural).collect(), warnings.len()))
    }

    #[test]
    fn optional_apis_need_the_flag_and_the_gate() {
        const BUNDLES: &str = "certificates.k8s.io/v1beta1=true";
        assert_eq!(plurals(BUNDLES, "ClusterTrustBundle=true"), Ok((vec!["clustertrustbundles"], 0)));
        assert_eq!(plurals(BUNDLES, "kube:AllBeta=true"), Ok((vec!["clustertrustbundles"], 0)));
        assert_eq!(plurals(BUNDLES, ""), Ok((vec![], 1)), "kube-apiserver warns, too");
        assert_eq!(plurals("", "ClusterTrustBundle=true"), Ok((vec![], 0)));
        let all = "ClusterTrustBundle=true,StorageVersionMigrator=true";
        let both = vec!["clustertrustbundles", "storageversionmigrations"];
        assert_eq!(plurals("api/beta=true", all), Ok((both, 0)));
        let one = "api/all=true,storagemigration.k8s.io/v1beta1=false";
        let without_gate = 2;
        assert_eq!(
            plurals(one, all),
            Ok((vec!["clustertrustbundles"], without_gate)),
            "Workloads, PodGroups"
        );
    }
}
