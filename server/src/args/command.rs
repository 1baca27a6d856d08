//! The subcommands of `kstore-server`.

use super::{
    AsArgs, AssetsArgs, BasicAuthArgs, CertsArgs, CompletionArgs, EndMarkedArgs, ExecArgs, ExplainArgs,
    KubeconfigArgs, ManArgs, RunArgs, StopArgs, StoreArgs, basic_auth, certs, dropin, explain, pages, run,
    stop, store,
};
use clap::Subcommand;

/// Subcommands besides running the server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command against a fresh in-memory cluster that ends with it
    #[command(after_help = run::HELP)]
    Run(Box<RunArgs>),
    /// Print what led to an object and what followed from it, as a tree
    #[command(after_help = explain::HELP)]
    Explain(ExplainArgs),
    /// End the server that runs on a data directory, in order
    #[command(after_help = stop::HELP)]
    Stop(StopArgs),
    /// Check, save, restore or salvage the store's data while no server runs on it
    #[command(after_help = store::HELP)]
    Store(StoreArgs),
    /// Show and renew the certificates in a data directory, and issue certificates of the cluster
    #[command(after_help = certs::CERTS_HELP)]
    Certs(CertsArgs),
    /// Make a kubeconfig with a new client certificate for a user
    #[command(after_help = certs::KUBECONFIG_HELP)]
    Kubeconfig(KubeconfigArgs),
    /// Hash a password and print the line of a user for --basic-auth-file
    #[command(after_help = basic_auth::HELP)]
    BasicAuth(BasicAuthArgs),
    /// Make a folder with the programs that envtest and other test harnesses start: kube-apiserver, etcd,
    /// kube-controller-manager, kube-scheduler, and kubectl if found
    #[command(after_help = dropin::ASSETS_HELP)]
    Assets(AssetsArgs),
    /// Run as another program, with the flags of that program: `kstore-server as etcd --help` lists them
    As(AsArgs),
    /// Print completions for a shell
    #[command(after_help = pages::COMPLETION_HELP)]
    Completion(CompletionArgs),
    /// Write the manual pages of all commands (used when packages are made)
    #[command(hide = true)]
    Man(ManArgs),
    /// Replace this process by another program that is killed when its parent exits (used by `run`)
    #[command(name = "exec-guarded", hide = true)]
    ExecGuarded(ExecArgs),
    /// End the processes that a `run` started, when that `run` was killed (used by `run`)
    #[command(name = "end-marked", hide = true)]
    EndMarked(EndMarkedArgs),
}
