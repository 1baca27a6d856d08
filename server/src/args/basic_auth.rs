//! Arguments of `basic-auth`, which the module of this name carries out.

use super::flag::{Flag, add, parsed, put, repeated, required};

pub(super) const HELP: &str = "\
Prints a line for the file of --basic-auth-file: the user, an argon2id hash of the password, the uid and the groups. The password \
is read from the terminal, or is the first line of standard input. The file may change while a server runs.

Examples:
  kstore-server basic-auth jane --group dev >> users
  kstore-server basic-auth robot < password-file >> users
  kstore-server --basic-auth-file users";

pub(super) const FLAGS: &[Flag<BasicAuthArgs>] = &[
    Flag::value(
        "user",
        "USER",
        |o: &mut BasicAuthArgs, text| put(&mut o.user, parsed(text)),
        "Name of the user; without a colon, which ends it in requests",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "uid",
        "UID",
        |o: &mut BasicAuthArgs, text| put(&mut o.uid, parsed(text)),
        "Unique ID of the user",
    )
    .default(""),
    Flag::value(
        "group",
        "GROUP",
        |o: &mut BasicAuthArgs, text| add(&mut o.group, parsed(text)),
        "Group of the user; may be given several times",
    )
    .shaped(repeated),
];

/// Arguments of `basic-auth`.
#[derive(Debug, Default)]
pub struct BasicAuthArgs {
    /// Name of the user.
    pub user: String,
    /// Unique ID of the user.
    pub uid: String,
    /// Groups of the user.
    pub group: Vec<String>,
}
