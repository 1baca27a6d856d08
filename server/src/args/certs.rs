//! Arguments of `certs` and `kubeconfig`, which the modules of these names carry out.

use super::{DEFAULT_DATA_DIR, external};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const CERTS_HELP: &str = "\
A running server shows a renewed certificate to new connections at once. Certificates with less than a year left are also \
renewed at a start. The authorities are not renewed: everything that they signed would have to be distributed again.

Examples:
  kstore-server certs show
  kstore-server certs renew
  kstore-server certs issue localhost
  kstore-server certs renew apiserver --data-dir /var/lib/kstore";

const ISSUE_HELP: &str = "\
Writes the certificate, its key (readable only by its owner) and the authority, which is the caBundle of a webhook. The API server \
calls a webhook by URL under the URL's host name, and by Service under NAME.NAMESPACE.svc. The cluster signs the certificate, by a \
CertificateSigningRequest for the signer kubernetes.io/kubelet-serving; with --data-dir this program does.

Examples:
  kstore-server certs issue localhost,127.0.0.1
  kstore-server certs issue hooks.default.svc --folder certs --data-dir kstore-data
  kstore-server run -- sh -ec 'kstore-server certs issue localhost; ./webhook-server localhost/ & make test'";

pub(super) const KUBECONFIG_HELP: &str = "\
Makes a key, requests a certificate for it as a CertificateSigningRequest, approves the request, and prints a kubeconfig with \
both. The user may do nothing until a role is bound to it or to its group.

With --merge the kubeconfig is added to ~/.kube/config: entries of the same names are replaced, all others and the mode of the \
file stay. Context, cluster and user are called kstore-NAME, as the server's --name or its data directory says.

Examples:
  kstore-server kubeconfig --merge --kubeconfig kstore-data/admin.kubeconfig
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
    /// Make a serving certificate of the cluster's authority, such as for a webhook
    #[command(after_help = ISSUE_HELP)]
    Issue(IssueArgs),
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

/// Arguments of `certs issue`.
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Host names and addresses of the server, separated by commas; the first one is its common name
    #[arg(value_name = "NAME", value_delimiter = ',', required = true)]
    pub names: Vec<String>,
    /// Folder for tls.crt, tls.key and ca.crt; created if it does not exist [default: the first NAME]
    #[arg(long, short, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Sign with the authority in this data directory, without a server
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub data_dir: Option<PathBuf>,
    /// Kubeconfig of an administrator [default: KUBECONFIG, or that of ./kstore-data]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
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
    /// Name of the user; may be left out with --merge, which then takes the administrator's kubeconfig as it is
    #[arg(value_name = "USER", required_unless_present = "merge")]
    pub user: Option<String>,
    /// Merge the kubeconfig into ~/.kube/config, or the file of --file, and make its context the current one
    #[arg(long)]
    pub merge: bool,
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
