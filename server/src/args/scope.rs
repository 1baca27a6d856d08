//! In which processes the flags of the server have an effect: [`Part`], of each row. A process refuses a given flag of a part that it
//! does not run.

use super::{Flag, UsageError};
use clap::ArgMatches;
use clap::parser::ValueSource;

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
pub(crate) enum Part {
    /// Nothing that a process could lack.
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
    /// The listener of the etcd API, which `--etcd-listen` opens.
    EtcdListener,
    /// The external etcd that `--etcd-servers` names.
    ExternalEtcd,
    /// The controllers of this process.
    Controllers,
}

impl Part {
    /// Whether a process lacks the part. What opens a listener, an etcd and controllers is checked where these are configured.
    fn is_missing_in(self, process: Process) -> bool {
        match self {
            Self::Process | Self::EtcdListener | Self::ExternalEtcd | Self::Controllers => false,
            Self::Apiserver => matches!(process, Process::StoreAlone | Process::LoopsAlone),
            Self::OtherApiserver => process == Process::StoreAlone,
            Self::Data => process == Process::LoopsAlone,
            Self::Store => matches!(process, Process::OnExternalEtcd | Process::LoopsAlone),
            Self::StoreTuning => process == Process::OnExternalEtcd,
        }
    }
}

/// The flags that a command line gives, in the order of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenFlags(Vec<(&'static str, Part)>);

impl GivenFlags {
    /// The flags of a table that a parsed command line gives. The command must have all of them: clap answers nothing about others,
    /// such as those of a subcommand.
    pub(super) fn read(flags: impl Iterator<Item = &'static Flag>, matches: &ArgMatches) -> Self {
        let given = flags.filter(|flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine));
        Self(given.map(|flag| (flag.name, flag.part)).collect())
    }

    /// The first given flag of a part.
    pub(super) fn of(&self, part: Part) -> Option<&'static str> {
        self.0.iter().find(|(_, known)| *known == part).map(|(name, _)| *name)
    }

    /// Whether a flag is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The first given flag of these.
    pub(super) fn among(&self, flags: &[Flag]) -> Option<&'static str> {
        let mut names = self.0.iter().map(|(name, _)| *name);
        names.find(|name| flags.iter().any(|flag| flag.name == *name))
    }

    /// Checks that no flag is given whose part the process lacks.
    ///
    /// # Errors
    /// The first such flag.
    pub(super) fn check(&self, process: Process) -> Result<(), UsageError> {
        match self.0.iter().find(|(_, part)| part.is_missing_in(process)) {
            None => Ok(()),
            Some((flag, _)) => Err(match process {
                Process::OnExternalEtcd => UsageError::OwnStoreOnly(flag),
                Process::StoreAlone | Process::LoopsAlone => UsageError::NeedsApiserver(flag),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::super::table;

    #[test]
    fn flags_of_a_subcommand_are_none_of_the_server() {
        let parsed =
            Cli::try_parse_from(["kstore-server", "store", "verify", "--data-dir", "d", "--output", "json"]);
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    #[test]
    fn each_flag_of_the_server_has_one_row() {
        let command = Cli::command();
        let declared = command.get_arguments().filter_map(clap::Arg::get_long);
        let mut declared: Vec<_> = declared.filter(|name| !["help", "version"].contains(name)).collect();
        let mut rows: Vec<_> = table::flags().map(|flag| flag.name).collect();
        declared.sort_unstable();
        rows.sort_unstable();
        assert_eq!(declared, rows);
        rows.dedup();
        assert_eq!(declared.len(), rows.len(), "no two rows have the same name");
    }

    #[test]
    fn each_flag_has_a_text_and_a_line_in_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md");
        let page = std::fs::read_to_string(page).unwrap();
        for flag in table::flags() {
            assert!(!flag.text.is_empty() && !flag.text.ends_with('.'), "{flag:?}: {}", flag.text);
            let mut families = FAMILIES.iter().filter(|family| flag.name.starts_with(**family));
            let is_documented = page.contains(&format!("--{}", flag.name))
                || families.any(|family| page.contains(&format!("--{family}*")));
            assert!(is_documented, "{flag:?} is missing in docs/command-line.md");
        }
    }

    /// Flags that the page names together.
    const FAMILIES: [&str; 4] =
        ["authentication-token-webhook-", "oidc-", "authorization-webhook-", "audit-webhook-"];
}
