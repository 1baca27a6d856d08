//! Arguments of `basic-auth`, which the module of this name carries out.

use clap::Args;

pub(super) const HELP: &str = "\
Prints a line for the file of --basic-auth-file: the user, an argon2id hash of the password, the uid and the groups. The password \
is read from the terminal, or is the first line of standard input. The file may change while a server runs.

Examples:
  kstore-server basic-auth jane --group dev >> users
  kstore-server basic-auth robot < password-file >> users
  kstore-server --basic-auth-file users";

/// Arguments of `basic-auth`.
#[derive(Debug, Args)]
pub struct BasicAuthArgs {
    /// Name of the user; without a colon, which ends it in requests
    #[arg(value_name = "USER")]
    pub user: String,
    /// Unique ID of the user
    #[arg(long, value_name = "UID", default_value = "")]
    pub uid: String,
    /// Group of the user; may be given several times
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
}
