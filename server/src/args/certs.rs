//! Arguments of `certs` and `kubeconfig`, which the modules of these names carry out.

use super::command::{given, subcommand};
use super::flag::{Flag, add, list, parsed, put, repeated};
use super::{DEFAULT_DATA_DIR, external, parser};
use clap::{ArgMatches, Command};
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

const SHOW: &[Flag<CertsDir>] = &[data_dir(|o: &mut CertsDir, path| o.data_dir = path)];

const ISSUE: &[Flag<IssueArgs>] = &[
    Flag::value(
        "names",
        "NAME",
        |o: &mut IssueArgs, text| add(&mut o.names, parsed(text)),
        "Host names and addresses of the server, separated by commas; the first one is its common name",
    )
    .positional()
    .shaped(|arg| list(arg).num_args(1..).required(true)),
    Flag::path(
        "folder",
        "DIR",
        |o: &mut IssueArgs, path| o.folder = Some(path),
        "Folder for tls.crt, tls.key and ca.crt; created if it does not exist [default: the first NAME]",
    )
    .shaped(|arg| arg.short('f')),
    Flag::path(
        "data-dir",
        "DIR",
        |o: &mut IssueArgs, path| o.data_dir = Some(path),
        "Sign with the authority in this data directory, without a server",
    )
    .shaped(|arg| arg.conflicts_with("kubeconfig")),
    admin(|o: &mut IssueArgs, path| o.kubeconfig = Some(path)),
];

const RENEW: &[Flag<RenewArgs>] = &[
    Flag::value(
        "names",
        "NAME",
        |o: &mut RenewArgs, text| add(&mut o.names, parsed(text)),
        "Certificates to renew, as `certs show` names them [default: all but the authorities]",
    )
    .positional()
    .shaped(|arg| repeated(arg).num_args(1..)),
    data_dir(|o: &mut RenewArgs, path| o.dir.data_dir = path),
];

pub(super) const KUBECONFIG: &[Flag<KubeconfigArgs>] = &[
    Flag::value(
        "user",
        "USER",
        |o: &mut KubeconfigArgs, text| put(&mut o.user, parsed(text).map(Some)),
        "Name of the user; may be left out with --merge, which then takes the administrator's kubeconfig as it is",
    )
    .positional()
    .shaped(|arg| arg.required_unless_present("merge")),
    Flag::switch(
        "merge",
        |o: &mut KubeconfigArgs| o.merge = true,
        "Merge the kubeconfig into ~/.kube/config, or the file of --file, and make its context the current one",
    ),
    Flag::value(
        "group",
        "GROUP",
        |o: &mut KubeconfigArgs, text| put(&mut o.group, parsed(text).map(Some)),
        "Group of the user",
    ),
    Flag::value(
        "expires",
        "TIME",
        |o: &mut KubeconfigArgs, text| put(&mut o.expires, external::time(text).map(Some)),
        "Validity of the certificate, such as 720h; at least 10m [default: a year]",
    ),
    Flag::path(
        "file",
        "FILE",
        |o: &mut KubeconfigArgs, path| o.file = Some(path),
        "File to write, readable only by its owner [default: standard output]",
    )
    .shaped(|arg| arg.short('f')),
    admin(|o: &mut KubeconfigArgs, path| o.kubeconfig = Some(path)),
];

/// The flag of a data directory.
const fn data_dir<O>(set: fn(&mut O, PathBuf)) -> Flag<O> {
    Flag::path("data-dir", "DIR", set, "Data directory").default(DEFAULT_DATA_DIR)
}

/// The flag of an administrator's kubeconfig.
const fn admin<O>(set: fn(&mut O, PathBuf)) -> Flag<O> {
    let text = "Kubeconfig of an administrator [default: KUBECONFIG, or that of ./kstore-data]";
    Flag::path("kubeconfig", "FILE", set, text)
}

/// Adds the subcommands of `certs`.
pub(super) fn build(command: Command) -> Command {
    let show = "List the certificates of a data directory: subject, end of validity, and signer";
    let issue = "Make a serving certificate of the cluster's authority, such as for a webhook";
    let renew = "Replace certificates and their keys, with the same subjects and names, and the kubeconfigs that contain them";
    command.subcommand_required(true).arg_required_else_help(true).subcommands([
        parser::add(subcommand("show", show, ""), SHOW),
        parser::add(subcommand("issue", issue, ISSUE_HELP), ISSUE),
        parser::add(subcommand("renew", renew, ""), RENEW),
    ])
}

/// Reads the arguments of `certs`.
pub(super) fn read(matches: &ArgMatches) -> Result<CertsArgs, clap::Error> {
    let command = match given(matches)? {
        ("show", show) => CertsCommand::Show(parser::read(SHOW, show)?),
        ("issue", issue) => CertsCommand::Issue(parser::read(ISSUE, issue)?),
        (_, renew) => CertsCommand::Renew(parser::read(RENEW, renew)?),
    };
    Ok(CertsArgs { command })
}

/// Arguments of `certs`.
#[derive(Debug)]
pub struct CertsArgs {
    /// Subcommand.
    pub command: CertsCommand,
}

/// Subcommands of `certs`. A server may run on the directory.
#[derive(Debug)]
pub enum CertsCommand {
    /// List the certificates of a data directory: subject, end of validity, and signer
    Show(CertsDir),
    /// Make a serving certificate of the cluster's authority, such as for a webhook
    Issue(IssueArgs),
    /// Replace certificates and their keys, with the same subjects and names, and the kubeconfigs that contain them
    Renew(RenewArgs),
}

/// The data directory of `certs`.
#[derive(Debug, Default)]
pub struct CertsDir {
    /// Data directory
    pub data_dir: PathBuf,
}

/// Arguments of `certs issue`.
#[derive(Debug, Default)]
pub struct IssueArgs {
    /// Host names and addresses of the server, separated by commas; the first one is its common name
    pub names: Vec<String>,
    /// Folder for tls.crt, tls.key and ca.crt; created if it does not exist [default: the first NAME]
    pub folder: Option<PathBuf>,
    /// Sign with the authority in this data directory, without a server
    pub data_dir: Option<PathBuf>,
    /// Kubeconfig of an administrator [default: KUBECONFIG, or that of ./kstore-data]
    pub kubeconfig: Option<PathBuf>,
}

/// Arguments of `certs renew`.
#[derive(Debug, Default)]
pub struct RenewArgs {
    /// Certificates to renew, as `certs show` names them [default: all but the authorities]
    pub names: Vec<String>,
    /// Where they are.
    pub dir: CertsDir,
}

/// Arguments of `kubeconfig`.
#[derive(Debug, Default)]
pub struct KubeconfigArgs {
    /// Name of the user; may be left out with --merge, which then takes the administrator's kubeconfig as it is
    pub user: Option<String>,
    /// Merge the kubeconfig into ~/.kube/config, or the file of --file, and make its context the current one
    pub merge: bool,
    /// Group of the user
    pub group: Option<String>,
    /// Validity of the certificate, such as 720h; at least 10m [default: a year]
    pub expires: Option<Duration>,
    /// File to write, readable only by its owner [default: standard output]
    pub file: Option<PathBuf>,
    /// Kubeconfig of an administrator [default: KUBECONFIG, or that of ./kstore-data]
    pub kubeconfig: Option<PathBuf>,
}
