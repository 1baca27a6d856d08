//! [`ProgramSpec`]: what a program is started with, checked before anything starts. Pure.

use crate::error::bad_request;
use crate::values;
use kstore_api::status::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Body of `POST /programs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ProgramSpec {
    /// Name of the program and of its client.
    pub name: String,
    /// The command with its arguments. No shell reads it.
    pub command: Vec<String>,
    /// Variables beside those of the server and `KUBECONFIG`.
    pub env: BTreeMap<String, String>,
    /// Folder in which the command starts; `None`: that of the server.
    pub folder: Option<PathBuf>,
    /// File for standard output and standard error; `None`: a file in the lab's temporary folder.
    pub output: Option<PathBuf>,
    /// User of the kubeconfig; `None`: a name of its own.
    pub user: Option<String>,
    /// Groups of the user; `None`: `system:masters`.
    pub groups: Option<Vec<String>>,
    /// Service account of the kubeconfig instead of a user, as `NAMESPACE/NAME`.
    pub service_account: Option<String>,
    /// Whether the clock waits for the program; `None`: it does.
    pub counted: Option<bool>,
    /// Whether the Leases that it holds are released when a plan ends it, as if their duration had passed. Not for callers over the
    /// network: a program that dies keeps its Leases until they expire.
    #[serde(skip)]
    pub releases_leases: bool,
}

impl ProgramSpec {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// 400: a member is wrong.
    pub fn check(&self) -> Result<(), Status> {
        values::name(&self.name, "/name")?;
        if self.command.first().is_none_or(String::is_empty) {
            return Err(bad_request("/command", "needs a program and its arguments, as in [\"./operator\"]"));
        }
        if let Some(at) = self.command.iter().position(|part| part.contains('\0')) {
            return Err(bad_request(&format!("/command/{at}"), "must not have a NUL character"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(bad_request(&format!("/env/{name}"), "is no variable that a process can have"));
            }
        }
        match (&self.service_account, &self.user, &self.groups) {
            (Some(_), None, None) | (None, _, _) => Ok(()),
            (Some(_), _, _) => Err(bad_request("/serviceAccount", "cannot be given with user or groups")),
        }
    }

    /// The user as whom the program calls the API.
    pub fn user_name(&self) -> String {
        match (&self.service_account, &self.user) {
            (Some(account), _) => format!("system:serviceaccount:{}", account.replacen('/', ":", 1)),
            (None, Some(user)) => user.clone(),
            (None, None) => format!("kstore:lab:{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> ProgramSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn wrong_members_are_refused_by_their_pointer() {
        assert_eq!(spec(r#"{"name":"a","command":["./a","-v"],"env":{"A":"="}}"#).check().ok(), Some(()));
        let rows = [
            (r#"{"command":["a"]}"#, "/name"),
            (r#"{"name":"a"}"#, "/command"),
            (r#"{"name":"a","command":[""]}"#, "/command"),
            (r#"{"name":"a","command":["a","\u0000"]}"#, "/command/1"),
            (r#"{"name":"a","command":["a"],"env":{"A=B":"c"}}"#, "/env/A=B"),
            (r#"{"name":"a","command":["a"],"user":"u","serviceAccount":"n/a"}"#, "/serviceAccount"),
        ];
        for (json, pointer) in rows {
            let refused = spec(json).check().unwrap_err();
            assert!(refused.message.starts_with(&format!("{pointer}: ")), "{json}: {}", refused.message);
        }
    }

    #[test]
    fn a_program_has_a_user_of_its_own_unless_it_names_one() {
        let user = |more: &str| spec(&format!(r#"{{"name":"a","command":["a"]{more}}}"#)).user_name();
        assert_eq!(user(""), "kstore:lab:a");
        assert_eq!(user(r#","user":"ann""#), "ann");
        assert_eq!(user(r#","serviceAccount":"ns/robot""#), "system:serviceaccount:ns:robot");
    }
}
