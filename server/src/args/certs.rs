//! Arguments of `certs` and `kubeconfig`, which the modules of these names carry out.

use super::{DEFAULT_DATA_DIR, external};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const CERTS_HELP: &str = "\
A running server shows a renewed certificate to new connections at once. Certificates with less than a year left are also
renewed at a start. The authorities are not renewed: everything that they signed would have to be distributed again.

Examples:
  kstore-server certs show
  kstore-server certs renew
  kstore-server certs renew apiserver --data-dir /var/lib/kstore";

pub(super) const KUBECONFIG_HELP: &str = "\
Makes a key, requests a certificate for it as a CertificateSigningRequest, approves the request, and prints a kubeconfig with
both. The user may do nothing until a role is bound to it or to its group.

Examples:
  kstore-server kubeconfig jane --group dev --file jane.kubeconfig
  kubectl create rolebinding jane --clusterrole=edit --user=jane";

/// Arguments of `certs`.
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: CertsCommand,
}

/// Subcommands of `certs`. A server may run on the directory.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// List the certificates of a data directory: subject, end of validity, and signer
    Show(CertsDir),
    /// Replace certificates and their keys, with the same subjects and names, and the kubeconfigs that contain them
    Renew(RenewArgs),
}

/// The data directory of `certs`.
#[derive(Debug, Args)]
pub struct CertsDir {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub data_dir: PathBuf,
}

/// Arguments of `certs renew`.
#[derive(Debug, Args)]
pub struct RenewArgs {
    /// Certificates to renew, as `certs show` names them [default: all but the authorities]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Where they are.
    #[command(flatten)]
    pub dir: CertsDir,
}

/// Arguments of `kubeconfig`.
#[derive(Debug, Args)]
pub struct KubeconfigArgs {
    /// Name of the user
    #[arg(value_name = "USER")]
    pub user: String,
    /// Group of the user
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Validity of the certificate, such as 720h; at least 10m [default: a year]
    #[arg(long, value_name = "TIME", value_parser = external::time)]
    pub expires: Option<Duration>,
    /// File to write, readable only by its owner [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Kubeconfig of an administrator [default: KUBECONFIG, or that of ./kstore-data]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}
