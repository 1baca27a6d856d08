//! Flags of `kstore-server explain`, which the module `explain` carries out.

use super::{external, number};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Prints first what led to the object, then the writes to it and what followed from them. Each line is one write: the time since \
the first, the revision, the actor, and the change. A write is indented under the write that caused it; repeated writes, such as \
heartbeats, are one line with their number. A large tree is summarized by kind and actor. The exit code is 1 if no write matches.

Examples:
  kstore-server explain deployment/web
  kstore-server explain deployment/web --kind pods --by scheduler --since 10m
  kstore-server explain node/node-0 --depth 1 -o yaml
  kstore-server explain pod/web-6d4cf56db6-x2x5v -n shop";

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Object to explain; the kind as kubectl takes it: deployment, deploy, deployments.apps
    #[arg(value_name = "KIND/NAME")]
    pub object: String,
    /// Namespace of the object [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: ExplainOutput,
    /// Show writes up to N causes below the first ones
    #[arg(long, value_name = "N", value_parser = number::count::<usize>)]
    pub depth: Option<usize>,
    /// Show writes of the last TIME, such as 30s or 5m, and what led to them
    #[arg(long, value_name = "TIME", value_parser = external::time)]
    pub since: Option<Duration>,
    /// Show writes to these kinds, and what led to them
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<String>,
    /// Show writes by users or programs with ACTOR in their names, and what led to them
    #[arg(long, value_name = "ACTOR", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Show each write of a large tree instead of a summary
    #[arg(long)]
    pub all: bool,
}

/// Output format of `explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ExplainOutput {
    /// A tree for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
    /// YAML with the fields of the JSON.
    Yaml,
}
