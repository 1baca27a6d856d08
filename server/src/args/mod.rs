//! The command line, checked and turned into a [`Config`]. Only here are flag names known; `wiring` applies the flags.
//! Every flag is a row of a table: `table` has the server's.

mod access;
mod at;
mod audit;
mod basic_auth;
mod certs;
mod command;
mod config;
mod cri;
mod dropin;
mod encryption;
mod etcd;
mod explain;
mod explore;
mod external;
mod flag;
mod forward;
mod history;
mod import;
mod keep;
mod lab;
mod listen;
mod logging;
mod metrics;
mod naming;
mod number;
mod options;
mod pages;
mod parser;
mod record;
mod replay;
mod report;
mod run;
mod scheduler_config;
mod scheduler_perf;
mod scope;
mod simulation;
mod stop;
mod store;
mod summary;
mod table;
mod tag;
mod ui;
mod undo;
mod usage_error;
mod values;
mod what_if;

use crate::telemetry::LogFormat;
pub(crate) use access::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, EVENTS, FlagError, FlagValues,
    KUBERNETES_VERSION, REQUEST_LIMITS, UNUSED_CLAIMS, audit_webhook, feature_gates, has_gate, known_plugin,
};
pub use access::{
    AccessConfig, AdmissionConfig, AuditWebhook, Authentication, Authorization, IssuerSource, ModeChoice,
    OptionalApis, TokenWebhookFile,
};
pub use at::AtArgs;
pub use audit::{AuditConfig, AuditDestination};
pub use basic_auth::BasicAuthArgs;
pub use certs::{CertsArgs, CertsCommand, IssueArgs, KubeconfigArgs, RenewArgs};
pub use command::Command;
pub(crate) use config::MAX_NODES;
pub use config::{
    Api, ApiHere, Component, Config, Durability, Engine, LoopsConfig, OutboundPolicy, Storage, StoreAlone,
};
pub use cri::{CriFlags, CriListen};
pub use dropin::{AsArgs, AssetsArgs, Program};
pub use encryption::EncryptionFile;
pub(crate) use encryption::encryption_file;
pub use etcd::{EtcdAddress, EtcdListen, EtcdTls};
pub use explain::{AnswerOutput, ExplainArgs};
pub use explore::ExploreArgs;
pub use external::ExternalEtcd;
pub(crate) use external::time;
pub use flag::ServerValue;
pub(crate) use flag::{BOOL, Flag, Verdict, accept, honour, refuse, refuse_unless};
pub use forward::{Forward, ForwardPort, ForwardTarget};
pub use history::{DiffArgs, HistoryArgs, HistoryDetail};
pub use import::{ImportArgs, SecretPolicy};
pub(crate) use keep::HistoryBounds;
pub use keep::{History, Quota};
pub use lab::LabFlags;
pub use listen::ListenAddress;
pub use metrics::MetricsServer;
pub(crate) use naming::CLUSTER;
pub use options::ServerOptions;
pub use pages::{CompletionArgs, ManArgs, Shell};
pub use record::RecordArgs;
pub use replay::{ReplayArgs, ReplaySpeed};
pub use report::{MarkArg, ReportArgs, ReportFile};
pub use run::{EndMarkedArgs, ExecArgs, ManifestPath, PageTime, RunArgs, Setup, WaitFor};
pub use scheduler_config::{CheckArgs, SchedulerFile};
pub use scheduler_perf::SchedulerPerfArgs;
pub use simulation::{
    Adoption, Documents, NodePrefix, ReportOutput, SimCrdsArgs, SimLintArgs, SimRbacArgs, SimulateArgs,
    SimulationFlags, Stages,
};
use std::ffi::OsString;
pub use stop::StopArgs;
pub use store::{AlarmCommand, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand};
pub(crate) use summary::of_other_tools;
pub use tag::TagArgs;
pub use ui::UiArgs;
pub use undo::{ConflictPolicy, UndoArgs};
pub use usage_error::UsageError;
pub(crate) use values::parse_bool;
pub use what_if::{FailOn, WhatIfArgs};

/// Data directory if --data-dir is not given.
pub const DEFAULT_DATA_DIR: &str = "./kstore-data";

/// The parsed command line.
#[derive(Debug)]
pub struct Cli {
    /// Subcommand; without one the server runs.
    pub command: Option<Command>,
    /// Flags of the server.
    pub serve: ServerOptions,
    /// Format of log lines on standard error.
    pub log_format: LogFormat,
}

impl Cli {
    /// The command line as clap knows it: commands, flags and help, from the tables.
    pub fn command() -> clap::Command {
        let program = clap::Command::new("kstore-server")
            .version(crate::VERSION)
            .about("A Kubernetes-style control plane in one process")
            .args_conflicts_with_subcommands(true)
            .after_help(summary::EXAMPLES)
            .max_term_width(120);
        command::add(parser::add_server(program, |_| true))
    }

    /// Parses the command line of this process.
    ///
    /// # Errors
    /// What is wrong with it, or the help that it asks for.
    pub fn try_parse() -> Result<Self, clap::Error> {
        Self::try_parse_from(std::env::args_os())
    }

    /// Parses a command line, which begins with the name of the program.
    ///
    /// # Errors
    /// What is wrong with it, or the help that it asks for.
    pub fn try_parse_from(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(words)?;
        let mut serve = ServerOptions::default();
        serve.read(table::flags(), &matches)?;
        let (command, log_format) = (command::read(&matches)?, serve.log_format);
        Ok(Self { command, serve, log_format })
    }
}

#[cfg(test)]
mod tests;
