//! Flags of optional APIs, admission, authentication, authorization, the audit webhook and the limits of requests.
//! Names and meanings are kube-apiserver's; `table` has their rows, for `kstore-server` and for its kube-apiserver
//! replacement. The files that they name are read in `access`.

mod admission;
mod apis;
mod audit;
mod authn;
mod authz;
mod gates;
mod requests;
mod table;

use super::flag::ServerValue;
use super::values::go_time;
pub(crate) use super::values::{FlagError, FlagValues};
pub use admission::AdmissionConfig;
pub(crate) use admission::known as known_plugin;
pub use apis::OptionalApis;
pub(crate) use apis::VERSION as KUBERNETES_VERSION;
pub use audit::AuditWebhook;
pub(crate) use audit::audit_webhook;
pub use authn::{Authentication, IssuerSource, TokenWebhookFile};
pub use authz::{Authorization, ModeChoice};
pub(crate) use gates::{UNUSED_CLAIMS, feature_gates, has as has_gate};
use kstore_pipeline::fairness::RequestLimits;
use kstore_storage::limits::EVENT_TTL;
use std::time::Duration;
pub(super) use table::BASIC_AUTH;
pub(crate) use table::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, EVENTS, KUBERNETES, REQUEST_LIMITS,
};

/// Authenticators, authorizers, admission plugins, limits and optional APIs that flags configure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessConfig {
    /// The authenticators.
    pub authentication: Authentication,
    /// The authorizers; `None` selects the program's default.
    pub authorization: Option<Authorization>,
    /// How many requests are served at a time.
    pub request_limits: RequestLimits,
    /// The admission plugins.
    pub admission: AdmissionConfig,
    /// The optional APIs and features.
    pub apis: OptionalApis,
    /// Values of further flags for the API server's configuration.
    pub server: Vec<ServerValue>,
}

/// The authenticators, authorizers, admission plugins, limits and optional APIs that the flags configure.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn access(flags: &impl FlagValues) -> Result<AccessConfig, FlagError> {
    let authentication = authn::authentication(flags)?;
    let (request_limits, apis) = (requests::request_limits(flags)?, apis::optional_apis(flags)?);
    let admission = admission::admission(flags, apis.opt_in.minor())?;
    let authorization = authz::authorization(flags)?;
    Ok(AccessConfig { authentication, authorization, request_limits, admission, apis, server: Vec::new() })
}

/// Parses `--event-ttl`. Zero keeps Events for ever; an empty value selects the default.
fn event_ttl(text: &str) -> Result<Duration, String> {
    /// A hundred years, which every etcd accepts as the time to live of a lease.
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    if text.is_empty() {
        return Ok(EVENT_TTL);
    }
    let ttl = go_time(text)?;
    let is_usable = ttl.is_zero() || (Duration::from_secs(1)..=LONGEST).contains(&ttl);
    is_usable.then_some(ttl).ok_or_else(|| "expected 0s, which keeps Events, or 1s to 876000h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::flag::Target;
    use super::super::table::flags;
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// Records which flags are read.
    #[derive(Default)]
    struct Recorder(RefCell<BTreeSet<String>>);

    impl FlagValues for Recorder {
        fn values(&self, name: &str) -> Vec<&str> {
            self.0.borrow_mut().insert(name.to_owned());
            // Without them the flags that belong to them are not read.
            match name {
                "oidc-issuer-url" => vec!["https://a"],
                "oidc-client-id"
                | "oidc-groups-claim"
                | "authorization-policy-file"
                | "authorization-webhook-config-file" => vec!["b"],
                "authorization-mode" => vec!["ABAC,Webhook"],
                _ => Vec::new(),
            }
        }
    }

    #[test]
    fn every_flag_of_a_group_is_read() {
        let recorder = Recorder::default();
        access(&recorder).unwrap();
        audit_webhook(&recorder).unwrap();
        let read = recorder.0.into_inner();
        for flag in flags().filter(|flag| matches!(flag.target, Target::Group(_))) {
            assert!(read.contains(flag.name), "{flag:?} is kept by name, and no reader reads it");
        }
    }

    #[test]
    fn events_live_as_long_as_the_flag_says_or_for_ever() {
        assert_eq!(event_ttl(""), Ok(EVENT_TTL));
        for (text, seconds) in [("10m", 600), ("1h30m0s", 5400), ("0s", 0), ("0", 0), ("1s", 1)] {
            assert_eq!(event_ttl(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["-1s", "500ms", "876001h", "10", "soon"] {
            assert!(event_ttl(text).is_err(), "{text}");
        }
    }
}
