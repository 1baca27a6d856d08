//! The API server's configuration by flags, for `kstore-server` and for its kube-apiserver replacement. Reads the files
//! that the flags name.

use crate::args::ApiHere;
use crate::{access, audit};
use anyhow::Error;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, AdmissionConfig, NetworkConfig, RegistryConfig};
use kstore_nondet::Nondet;

/// The configuration by the flags that both programs have. What remains are certificates, addresses, keys of tokens and
/// the other parts of the process.
pub(crate) fn by_flags(api: &ApiHere, nondet: &Nondet) -> anyhow::Result<ServerConfig> {
    let flags = &api.access;
    for warning in flags.admission.warnings.iter().chain(&flags.apis.warnings) {
        tracing::warn!("{warning}");
    }
    let audit = api.audit.as_ref().map(|audit| audit::open(audit, nondet)).transpose()?;
    let (config, has_anonymous) = configured(api, nondet)?;
    if let Some(warning) = flags.authentication.anonymous_warning.as_ref().filter(|_| !has_anonymous) {
        tracing::warn!("{warning}");
    }
    Ok(ServerConfig { audit, ..config })
}

/// The same without an audit log and without warnings, for further servers of a process.
pub(crate) fn without_audit(api: &ApiHere, nondet: &Nondet) -> anyhow::Result<ServerConfig> {
    configured(api, nondet).map(|(config, _)| config)
}

/// The configuration, and whether a file says what requests without credentials may do.
fn configured(api: &ApiHere, nondet: &Nondet) -> anyhow::Result<(ServerConfig, bool)> {
    let flags = &api.access;
    let authenticators = access::authenticators(&flags.authentication, nondet)?;
    let has_anonymous = authenticators.anonymous.is_some();
    let mut config = ServerConfig {
        nondet: nondet.clone(),
        network: NetworkConfig {
            compresses_watches: flags.apis.compressed_watches,
            ..NetworkConfig::default()
        },
        access: AccessConfig {
            authorization: access::modes(flags.authorization.as_ref(), nondet)?,
            bearers: authenticators.bearers,
            anonymous: authenticators.anonymous.unwrap_or_else(|| api.anonymous.into()),
            impersonation: flags.apis.impersonation,
            ..AccessConfig::default()
        },
        admission: AdmissionConfig {
            switches: flags.admission.switches.clone(),
            configured: access::configured_plugins(&flags.admission, &nondet.rng, &flags.apis.opt_in)?,
        },
        registry: RegistryConfig {
            service_ranges: api.service_ranges,
            unsafe_deletion: flags.apis.unsafe_deletion,
            ..RegistryConfig::default()
        },
        requests: flags.request_limits,
        opt_in: flags.apis.opt_in.clone(),
        ..ServerConfig::default()
    };
    for value in &flags.server {
        value.apply(&mut config).map_err(Error::msg)?;
    }
    Ok((config, has_anonymous))
}
