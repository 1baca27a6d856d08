//! Flags of optional APIs, admission, authentication, authorization, the audit webhook and the limits of requests.
//! Names and meanings are kube-apiserver's. One table defines them for `kstore-server` and for its
//! kube-apiserver replacement. The files that they name are read in `access`.

mod admission;
mod apis;
mod audit;
mod authn;
mod authz;
mod gate_table;
mod gates;
mod requests;
mod table;

pub(crate) use crate::flags::given::{FlagError, FlagValues};
use crate::flags::{BOOL, Flag};
pub use admission::AdmissionConfig;
pub(crate) use admission::known as known_plugin;
pub use apis::OptionalApis;
pub use audit::AuditWebhook;
pub(crate) use audit::audit_webhook;
pub use authn::{Authentication, IssuerSource, TokenWebhookFile};
pub use authz::{Authorization, ModeChoice};
use clap::{Arg, ArgAction, ArgMatches, Command};
pub(crate) use gates::feature_gates;
use kstore_pipeline::fairness::RequestLimits;
use kstore_storage::limits::EVENT_TTL;
use std::time::Duration;
pub(crate) use table::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, EVENTS, REQUEST_LIMITS, TABLES,
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
    /// Bytes of the memory of `explain`; `None` selects the default.
    pub explain_bytes: Option<usize>,
    /// How long Events live; zero is for ever, `None` selects the default.
    pub event_ttl: Option<Duration>,
}

/// The authenticators, authorizers, admission plugins, limits and optional APIs that the flags configure.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn access(flags: &impl FlagValues) -> Result<AccessConfig, FlagError> {
    let authentication = authn::authentication(flags)?;
    let (request_limits, admission) = (requests::request_limits(flags)?, admission::admission(flags)?);
    let apis = apis::optional_apis(flags)?;
    let (authorization, event_ttl) = (authz::authorization(flags)?, event_ttl(flags)?);
    Ok(AccessConfig {
        authentication,
        authorization,
        request_limits,
        admission,
        apis,
        explain_bytes: None,
        event_ttl,
    })
}

/// How long Events live, if the flag is given; zero is for ever.
///
/// # Errors
/// A time that leases of etcd cannot have.
fn event_ttl(flags: &impl FlagValues) -> Result<Option<Duration>, FlagError> {
    const NAME: &str = "event-ttl";
    /// A hundred years, which every etcd accepts as the time to live of a lease.
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let Some(given) = flags.text(NAME) else { return Ok(None) };
    let ttl = flags.time(NAME, EVENT_TTL)?;
    let is_usable = ttl.is_zero() || (Duration::from_secs(1)..=LONGEST).contains(&ttl);
    let refused = || FlagError::new(NAME, given, "expected 0s, which keeps Events, or 1s to 876000h");
    is_usable.then_some(Some(ttl)).ok_or_else(refused)
}

/// The given access flags of `kstore-server`, each with its value.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessArgs(Vec<(&'static str, String)>);

impl FlagValues for AccessArgs {
    fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// The names of the flags.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    flags().map(|(_, flag)| flag.name)
}

fn flags() -> impl Iterator<Item = (&'static str, &'static Flag)> {
    TABLES.iter().flat_map(|(heading, flags)| flags.iter().map(move |flag| (*heading, flag)))
}

impl clap::FromArgMatches for AccessArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |flag: &'static Flag| {
            let values = matches.get_many::<String>(flag.name).into_iter().flatten();
            values.map(|value| (flag.name, value.clone()))
        };
        Ok(Self(flags().flat_map(|(_, flag)| values(flag)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for AccessArgs {
    fn augment_args(command: Command) -> Command {
        let arg = |(heading, flag): (&'static str, &'static Flag)| {
            let arg = Arg::new(flag.name).long(flag.name).help(flag.text).help_heading(heading);
            let arg = arg.action(ArgAction::Append);
            match flag.kind {
                BOOL => {
                    arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
                }
                kind => arg.value_name(kind),
            }
        };
        command.args(flags().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::given::TestFlags;

    #[test]
    fn events_live_as_long_as_the_flag_says_or_for_ever() {
        let read = |text: &'static str| event_ttl(&TestFlags(vec![("event-ttl", text)]));
        assert_eq!(event_ttl(&TestFlags(Vec::new())), Ok(None));
        for (text, seconds) in [("10m", 600), ("1h30m0s", 5400), ("0s", 0), ("0", 0), ("1s", 1)] {
            assert_eq!(read(text), Ok(Some(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["-1s", "500ms", "876001h", "10", "soon"] {
            assert_eq!(read(text).unwrap_err().name, "event-ttl", "{text}");
        }
    }
}
