//! In which processes the flags of the server have an effect: one row per flag. A process refuses a given flag of a
//! part that it does not run. The rows of kube-apiserver's flags are in `access::TABLES`; all need the apiserver.

use super::{UsageError, access};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// A process, by the part that some flags would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    /// A plain etcd: it has no apiserver.
    StoreAlone,
    /// An apiserver with its objects in an external etcd: it has no store.
    OnExternalEtcd,
    /// Clients of an apiserver in another process: it has neither.
    LoopsAlone,
}

/// The part of a process that a flag configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Nothing that a process could lack, or its own check finds it.
    Process,
    /// The apiserver of this process.
    Apiserver,
    /// The apiserver of another process.
    OtherApiserver,
    /// The data of this process, in a store or beside an external etcd.
    Data,
    /// The store of this process.
    Store,
    /// The store of this process; without effect where there is none but in an external etcd's process.
    StoreTuning,
}

impl Scope {
    /// Whether a process lacks the part.
    fn is_missing_in(self, process: Process) -> bool {
        match self {
            Self::Process => false,
            Self::Apiserver => matches!(process, Process::StoreAlone | Process::LoopsAlone),
            Self::OtherApiserver => process == Process::StoreAlone,
            Self::Data => process == Process::LoopsAlone,
            Self::Store => matches!(process, Process::OnExternalEtcd | Process::LoopsAlone),
            Self::StoreTuning => process == Process::OnExternalEtcd,
        }
    }
}

/// The flags of the server by their part, in the order in which they are refused.
const SCOPES: &[(&str, Scope)] = &[
    ("--kubeconfig", Scope::OtherApiserver),
    ("--data-dir", Scope::Data),
    ("--in-memory", Scope::Data),
    ("--durability", Scope::StoreTuning),
    ("--engine", Scope::StoreTuning),
    ("--salvage", Scope::StoreTuning),
    ("--quota-bytes", Scope::Store),
    ("--history", Scope::StoreTuning),
    ("--etcd-listen", Scope::Store),
    ("--write-kubeconfig", Scope::Apiserver),
    ("--etcd-servers", Scope::Apiserver),
    ("--service-cluster-ip-range", Scope::Apiserver),
    ("--anonymous-auth", Scope::Apiserver),
    ("--webhook-service-resolve", Scope::Apiserver),
    ("--encryption-provider-config", Scope::Apiserver),
    ("--encryption-provider-config-automatic-reload", Scope::Apiserver),
    ("--audit-policy-file", Scope::Apiserver),
    ("--audit-log-path", Scope::Apiserver),
    ("--audit-log-mode", Scope::Apiserver),
    ("--audit-log-maxage", Scope::Apiserver),
    ("--audit-log-maxbackup", Scope::Apiserver),
    ("--audit-log-maxsize", Scope::Apiserver),
    ("--metrics-server", Scope::Apiserver),
    ("--explain-memory", Scope::Apiserver),
    ("--name", Scope::Apiserver),
    // With --components, --nodes and the flags of components, these say what a process is.
    ("--listen", Scope::Process),
    ("--components", Scope::Process),
    ("--controllers", Scope::Process),
    ("--load-balancer-pool", Scope::Process),
    ("--cluster-cidr", Scope::Process),
    ("--nodes", Scope::Process),
    ("--missing-image", Scope::Process),
    ("--leader-elect", Scope::Process),
    ("--log-format", Scope::Process),
    // These need --etcd-listen.
    ("--etcd-advertise", Scope::Process),
    ("--etcd-cert-file", Scope::Process),
    ("--etcd-key-file", Scope::Process),
    ("--etcd-trusted-ca-file", Scope::Process),
    ("--etcd-client-cert-auth", Scope::Process),
    ("--etcd-allow-anyone", Scope::Process),
    // These need --etcd-servers.
    ("--etcd-cafile", Scope::Process),
    ("--etcd-certfile", Scope::Process),
    ("--etcd-keyfile", Scope::Process),
    ("--etcd-prefix", Scope::Process),
    ("--etcd-compaction-interval", Scope::Process),
    ("--etcd-user", Scope::Process),
    ("--etcd-password-file", Scope::Process),
];

/// The flags that a command line gives, whatever their types.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenFlags(Vec<String>);

impl GivenFlags {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|given| given == name)
    }

    /// Checks that no flag is given whose part the process lacks.
    ///
    /// # Errors
    /// The first such flag.
    pub(super) fn check(&self, process: Process) -> Result<(), UsageError> {
        let missing = SCOPES.iter().filter(|(_, scope)| scope.is_missing_in(process));
        if let Some((flag, _)) = missing.into_iter().find(|(flag, _)| self.has(name(flag))) {
            return Err(match process {
                Process::OnExternalEtcd => UsageError::OwnStoreOnly(flag),
                Process::StoreAlone | Process::LoopsAlone => UsageError::NeedsApiserver(flag),
            });
        }
        let mut of_apiserver = access::names().filter(|_| Scope::Apiserver.is_missing_in(process));
        match of_apiserver.find(|flag| self.has(flag)) {
            Some(flag) => Err(UsageError::NeedsApiserverFlag(flag)),
            None => Ok(()),
        }
    }
}

/// The name of a flag without its dashes.
fn name(flag: &str) -> &str {
    flag.trim_start_matches('-')
}

impl clap::FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // The flags of subcommands are among the ids, but not among the arguments here.
        let ids = matches.ids().map(clap::Id::as_str).filter(|id| matches.try_contains_id(id).is_ok());
        let given = ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
        Ok(Self(given.map(|id| id.replace('_', "-")).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds no flag: the others declare them.
impl clap::Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn flags_of_a_subcommand_are_none_of_the_server() {
        use clap::Parser as _;
        let parsed =
            Cli::try_parse_from(["kstore-server", "store", "verify", "--data-dir", "d", "--output", "json"]);
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    #[test]
    fn each_flag_of_the_server_has_one_row() {
        let command = Cli::command();
        let declared = command.get_arguments().filter_map(clap::Arg::get_long);
        let mut declared: Vec<_> = declared.filter(|name| !["help", "version"].contains(name)).collect();
        let mut rows: Vec<_> = SCOPES.iter().map(|(flag, _)| name(flag)).chain(access::names()).collect();
        declared.sort_unstable();
        rows.sort_unstable();
        assert_eq!(declared, rows);
    }
}
