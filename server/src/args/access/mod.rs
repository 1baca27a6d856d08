//! Flags of audit, authentication and authorization: their webhooks, modes and files. They have kube-apiserver's names and meanings,
//! and one table declares them for `kstore-server` and for the stand-in of kube-apiserver. The module `access` reads the files.

mod audit;
mod authn;
mod authz;
mod given;
mod table;

pub use audit::AuditWebhook;
pub(crate) use audit::audit_webhook;
pub use authn::{Authentication, IssuersFrom, TokenWebhookFile};
pub use authz::{Authorization, ModeChoice};
pub(crate) use given::{FlagError, Given, duration};
pub(crate) use table::{AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, TABLES};

use crate::dropin::{BOOL, Flag};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// The settings of authentication and authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessConfig {
    /// The authenticators.
    pub authentication: Authentication,
    /// The authorization modes; `None`: the program's default.
    pub authorization: Option<Authorization>,
}

/// Parses the flags.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn access(flags: &impl Given) -> Result<AccessConfig, FlagError> {
    let authentication = authn::authentication(flags)?;
    Ok(AccessConfig { authentication, authorization: authz::authorization(flags)? })
}

/// The flags as they were given to `kstore-server`.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessArgs(Vec<(&'static str, String)>);

impl AccessArgs {
    /// The first flag that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.0.first().map(|(name, _)| *name)
    }
}

impl Given for AccessArgs {
    fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect()
    }
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
