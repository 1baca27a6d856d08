//! Flags of the admission plugins. The configuration file is read in `access`.

use super::{FlagError, FlagValues};
use kstore_admission::PluginSwitches;
use kstore_api::version::Minor;
use std::path::PathBuf;

const ENABLE: &str = "enable-admission-plugins";
const DISABLE: &str = "disable-admission-plugins";

/// The admission plugins that flags select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// The enabled and disabled plugins.
    pub switches: PluginSwitches,
    /// File of the plugins' configurations.
    pub file: Option<PathBuf>,
    /// Warnings about enabled plugins that this server does not have.
    pub warnings: Vec<String>,
}

/// The plugins that the flags select on a server of a version.
///
/// # Errors
/// The first plugin that the version does not know, or one that is both enabled and disabled.
pub(super) fn admission(flags: &impl FlagValues, minor: Minor) -> Result<AdmissionConfig, FlagError> {
    for flag in [ENABLE, DISABLE] {
        if let Some(name) = flags.elements(flag).iter().find(|name| !kstore_admission::is_in(minor, name)) {
            let reason = format!("admission plugin {name:?} is unknown to Kubernetes {minor}");
            return Err(FlagError::new(flag, name, reason));
        }
    }
    let mut config =
        AdmissionConfig { file: flags.file("admission-control-config-file"), ..Default::default() };
    for name in flags.elements(ENABLE) {
        config.switches.enabled.extend(known(ENABLE, &name, &mut config.warnings)?);
    }
    for name in flags.elements(DISABLE) {
        match kstore_admission::plugins().find(|plugin| *plugin == name) {
            Some(plugin) if config.switches.enabled.contains(plugin) => {
                return Err(FlagError::new(DISABLE, &name, "--enable-admission-plugins has it, too"));
            }
            Some(plugin) => drop(config.switches.disabled.insert(plugin)),
            None if kstore_admission::LEFT_OUT.contains(&name.as_str()) => {}
            None => return Err(FlagError::new(DISABLE, &name, unknown(&name))),
        }
    }
    Ok(config)
}

/// Looks up a plugin that a flag enables. `None`, with a warning, for a plugin that Kubernetes enables by default
/// and kstore does not have: such a flag changes nothing in Kubernetes either.
pub(crate) fn known(
    flag: &'static str,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Option<&'static str>, FlagError> {
    if let Some(plugin) = kstore_admission::plugins().find(|plugin| *plugin == name) {
        return Ok(Some(plugin));
    }
    if kstore_admission::LEFT_OUT.contains(&name) {
        warnings.push(format!("--{flag}: kstore does not have the admission plugin {name}"));
        return Ok(None);
    }
    Err(FlagError::new(flag, name, unknown(name)))
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = kstore_admission::plugins().collect();
    format!("admission plugin {name:?} is unknown; the plugins are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;

    #[test]
    fn plugins_are_switched_by_name() {
        let read = |flags: &[(&'static str, &'static str)]| {
            admission(&TestFlags(flags.to_vec()), Minor::DEFAULT).map_err(|error| error.reason)
        };
        let both = read(&[(ENABLE, "NamespaceAutoProvision,AlwaysDeny"), (DISABLE, "PodSecurity, Priority")]);
        let switches = PluginSwitches {
            enabled: ["NamespaceAutoProvision", "AlwaysDeny"].into(),
            disabled: ["PodSecurity", "Priority"].into(),
        };
        assert_eq!(both, Ok(AdmissionConfig { switches, ..AdmissionConfig::default() }));
        assert_eq!(read(&[(ENABLE, ""), (DISABLE, "")]), Ok(AdmissionConfig::default()));
        let file = read(&[("admission-control-config-file", "f")]).unwrap().file;
        assert_eq!(file, Some("f".into()));
        for (flags, expected) in [
            ([(ENABLE, "AlwaysDeny"), (DISABLE, "AlwaysDeny")], "--enable-admission-plugins has it, too"),
            ([(ENABLE, "NoSuchPlugin"), (DISABLE, "")], "admission plugin \"NoSuchPlugin\" is unknown"),
            ([(ENABLE, ""), (DISABLE, "RBACEscalation")], "admission plugin \"RBACEscalation\" is unknown"),
        ] {
            let refused = read(&flags).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    #[test]
    fn a_plugin_that_the_version_lacks_is_unknown() {
        for (name, first, last) in [
            ("NodeDeclaredFeatureValidator", Minor::V35, Minor::V37),
            ("PodResizeValidator", Minor::V36, Minor::V37),
            ("PodGroupWorkloadExists", Minor::V36, Minor::V36),
            ("JobValidation", Minor::V36, Minor::V37),
            ("Priority", Minor::V33, Minor::V37),
        ] {
            for (minor, flag) in
                Minor::SERVED.into_iter().flat_map(|minor| [(minor, ENABLE), (minor, DISABLE)])
            {
                let read = admission(&TestFlags(vec![(flag, name)]), minor);
                assert_eq!(read.is_ok(), (first..=last).contains(&minor), "{minor} {flag} {name}: {read:?}");
            }
        }
    }

    #[test]
    fn a_missing_plugin_of_the_default_set_yields_a_warning_if_it_is_enabled() {
        for name in kstore_admission::LEFT_OUT {
            let enabled = admission(&TestFlags(vec![(ENABLE, name)]), Minor::DEFAULT).unwrap();
            let text = format!("--{ENABLE}: kstore does not have the admission plugin {name}");
            assert_eq!((enabled.switches, enabled.warnings), (PluginSwitches::default(), vec![text]));
            let disabled = admission(&TestFlags(vec![(DISABLE, name)]), Minor::DEFAULT);
            assert_eq!(disabled, Ok(AdmissionConfig::default()));
        }
    }

    #[test]
    fn every_plugin_of_kubernetes_default_set_is_known() {
        const DEFAULT: &str = "NamespaceLifecycle, LimitRanger, ServiceAccount, TaintNodesByCondition, PodSecurity, \
            Priority, DefaultTolerationSeconds, DefaultStorageClass, StorageObjectInUseProtection, \
            PodGroupProtection, PersistentVolumeClaimResize, RuntimeClass, CertificateApproval, \
            CertificateSigning, ClusterTrustBundleAttest, CertificateSubjectRestriction, DefaultIngressClass, \
            PodTopologyLabels, PodGroupWorkloadExists, NodeDeclaredFeatureValidator, JobValidation, \
            PodResizeValidator, MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, \
            ValidatingAdmissionWebhook, ResourceQuota";
        let own: Vec<&str> = kstore_admission::plugins().collect();
        for name in DEFAULT.split(',').map(str::trim) {
            let is_on = own.contains(&name) && PluginSwitches::default().runs(name);
            assert_ne!(is_on, kstore_admission::LEFT_OUT.contains(&name), "{name}");
        }
    }
}
