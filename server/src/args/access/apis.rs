//! Flags of optional APIs and features.

use super::{FlagError, FlagValues, gates};
use kstore_access::authn::impersonation::ServedModes;
use kstore_api::kind::OptIn;
use kstore_api::version::{Minor, UnknownMinor};
use kstore_scheduler::Gates;

/// The flag of the version.
pub(crate) const VERSION: &str = "kubernetes-version";

/// The optional APIs and features that the flags turn on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalApis {
    /// The version of Kubernetes, and the kinds and features.
    pub opt_in: OptIn,
    /// The modes of impersonation.
    pub impersonation: ServedModes,
    /// Whether objects that cannot be read are reported, and may be deleted.
    pub unsafe_deletion: bool,
    /// Whether claims show that no pod refers to them.
    pub unused_claims: bool,
    /// The scheduler's feature gates.
    pub scheduler: Gates,
    /// Whether watches that begin with the state are compressed.
    pub compressed_watches: bool,
    /// The settings of `--feature-gates`.
    pub gates: Vec<String>,
    /// Settings without effect.
    pub warnings: Vec<String>,
}

impl Default for OptionalApis {
    /// Those of the default version without flags.
    fn default() -> Self {
        Self::of(OptIn::default(), Vec::new(), Vec::new())
    }
}

impl OptionalApis {
    /// The features of a server with these kinds and settings of `--feature-gates`, which were checked with these warnings.
    fn of(opt_in: OptIn, gates: Vec<String>, warnings: Vec<String>) -> Self {
        let has = |gate: &str| gates::has(opt_in.minor(), gate, &gates);
        let impersonation = match has(gates::CONSTRAINED_IMPERSONATION) {
            true => ServedModes::All,
            false => ServedModes::Legacy,
        };
        Self {
            impersonation,
            unsafe_deletion: has(gates::UNSAFE_DELETION),
            unused_claims: has(gates::UNUSED_CLAIMS),
            scheduler: Gates::of(has),
            compressed_watches: has(gates::WATCH_COMPRESSION),
            opt_in,
            gates,
            warnings,
        }
    }
}

/// The version of Kubernetes, and the optional APIs and features that the flags turn on in it.
///
/// # Errors
/// A version that is not served, or a feature gate or an API that cannot be set to this value.
pub(super) fn optional_apis(flags: &impl FlagValues) -> Result<OptionalApis, FlagError> {
    let minor = match flags.text(VERSION) {
        Some(text) => text.parse().map_err(|error: UnknownMinor| FlagError::new(VERSION, text, error))?,
        None => Minor::DEFAULT,
    };
    let gates = flags.elements("feature-gates");
    let mut warnings = gates::feature_gates(minor, &gates)?;
    let (opt_in, ineffective) = gates::opt_in(minor, &flags.elements("runtime-config"), &gates)?;
    warnings.extend(ineffective);
    Ok(OptionalApis::of(opt_in, gates, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;

    #[test]
    fn optional_apis_follow_both_flags() {
        let read = |flags: &[(&'static str, &'static str)]| optional_apis(&TestFlags(flags.to_vec()));
        assert_eq!(read(&[]).unwrap(), OptionalApis::default());
        let api = ("runtime-config", "certificates.k8s.io/v1beta1=true,api/ga=true");
        let gates = ("feature-gates", "ClusterTrustBundle=true,ClusterTrustBundleProjection=true");
        let older = (VERSION, "1.36");
        let apis = read(&[older, api, gates]).unwrap();
        assert!(apis.opt_in.has("certificates.k8s.io", "clustertrustbundles"));
        assert!(apis.opt_in.features().trust_bundle_projection && apis.warnings.is_empty());
        assert_eq!(read(&[older, api]).unwrap().warnings.len(), 1);
        let legacy = read(&[("feature-gates", "ConstrainedImpersonation=false")]).unwrap();
        assert!(legacy.impersonation == ServedModes::Legacy && legacy.warnings.is_empty());
        let names = "PersistentVolumeClaimUnusedSinceTime=true,AllowUnsafeMalformedObjectDeletion=true";
        let alpha = read(&[older, ("feature-gates", names)]).unwrap();
        let without = read(&[older]).unwrap();
        assert!(!without.unused_claims && !without.unsafe_deletion && !without.compressed_watches);
        let default = OptionalApis::default();
        assert!(default.unused_claims && default.unsafe_deletion && default.compressed_watches);
        let early = read(&[("feature-gates", "SchedulerPopFromBackoffQ=false")]).unwrap();
        assert!(!early.scheduler.pop_from_backoff && early.scheduler.bounds_device_search);
        assert!(early.warnings.is_empty());
        assert!(alpha.unused_claims && alpha.unsafe_deletion && alpha.warnings.is_empty());
        assert_eq!(read(&[("feature-gates", "AllBeta=false")]).unwrap().impersonation, ServedModes::Legacy);
        let gangs = |version, gates| read(&[(VERSION, version), ("feature-gates", gates)]).unwrap().scheduler;
        assert!(gangs("1.36", "GenericWorkload=true,GangScheduling=true").schedules_gangs);
        assert!(!gangs("1.36", "GenericWorkload=true").schedules_gangs);
        assert!(gangs("1.37", "GenericWorkload=true").schedules_gangs, "it has one gate for both");
        assert_eq!(read(&[(VERSION, "1.34")]).unwrap().opt_in.minor(), Minor::V34);
        assert_eq!(read(&[(VERSION, "")]).unwrap().opt_in.minor(), Minor::DEFAULT);
        let refused = read(&[(VERSION, "1.32")]).unwrap_err();
        assert!(refused.to_string().contains("Kubernetes 1.32 is not served"), "{refused}");
        assert_eq!(read(&[("feature-gates", "Nothing=true")]).unwrap_err().name, "feature-gates");
        assert_eq!(read(&[("runtime-config", "apps/v1=false")]).unwrap_err().name, "runtime-config");
    }
}
