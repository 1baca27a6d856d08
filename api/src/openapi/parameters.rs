//! Query and path parameters of each action.

use crate::version::Minor;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Parameter, independent of the OpenAPI version: v3 repeats it at every use, v2 refers to a shared one. The
/// order is by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    location: ParameterLocation,
    description: Cow<'static, str>,
    /// JSON type.
    ty: &'static str,
}

/// Location of a parameter, in the alphabetical order of its name in documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ParameterLocation {
    Path,
    Query,
}

impl Parameter {
    /// The parameter in the form of OpenAPI v3.
    pub(super) fn to_v3(&self) -> Value {
        let mut out = self.common();
        out["schema"] = json!({"type": self.ty, "uniqueItems": true});
        out
    }

    /// The parameter in the form of OpenAPI v2, which has the type beside the name.
    pub(super) fn to_v2(&self) -> Value {
        let mut out = self.common();
        out["type"] = self.ty.into();
        out["uniqueItems"] = true.into();
        out
    }

    fn common(&self) -> Value {
        match self.location {
            ParameterLocation::Path => {
                json!({"name": self.name, "in": "path", "required": true, "description": self.description})
            }
            ParameterLocation::Query => {
                json!({"name": self.name, "in": "query", "description": self.description})
            }
        }
    }
}

/// Splits parameters into those that all operations of a path share, and the rest of each operation.
pub(super) fn split(mut all: Vec<Vec<Parameter>>) -> (Vec<Parameter>, Vec<Vec<Parameter>>) {
    let in_all = |parameter: &Parameter| all.iter().all(|own| own.contains(parameter));
    let shared: Vec<Parameter> =
        all.first().into_iter().flatten().filter(|own| in_all(own)).cloned().collect();
    all.iter_mut().for_each(|own| own.retain(|parameter| !shared.contains(parameter)));
    (shared, all)
}

/// Query parameters of an operation on objects, by its action, in a version of Kubernetes.
pub(super) fn of_action(action: &str, minor: Minor) -> Vec<Parameter> {
    let mut out = vec![string("pretty", "`true`: indent the answer.")];
    match action {
        "post" | "put" => out.extend(writing()),
        "patch" => {
            out.extend(writing());
            out.push(boolean("force", "Take over fields that other managers own; for apply patches only."));
        }
        "delete" => out.extend(deletion()),
        "deletecollection" => out.extend(deletion().into_iter().chain(selection(minor))),
        "list" | "watch" | "watchlist" => {
            out.extend(selection(minor));
            out.push(boolean("watch", "Answer with changes as they happen."));
            out.push(boolean("allowWatchBookmarks", "A watch may send BOOKMARK events."));
        }
        _ => {}
    }
    out
}

/// Query parameters of an operation that returns a stream or text.
pub(super) fn of_stream(subresource: &str) -> Vec<Parameter> {
    let streams = || {
        vec![
            string("container", "Which container; may be left out if there is only one."),
            boolean("stderr", "Send standard error."),
            boolean("stdin", "Take standard input."),
            boolean("stdout", "Send standard output."),
            boolean("tty", "Give the process a terminal."),
        ]
    };
    match subresource {
        "attach" => streams(),
        "exec" => {
            let command = string("command", "The command, a word each time the parameter is given.");
            streams().into_iter().chain([command]).collect()
        }
        "log" => logs(),
        "portforward" => vec![integer("ports", "The ports, one each time the parameter is given.")],
        "proxy" => vec![string("path", "The path of the request that is passed on.")],
        _ => Vec::new(),
    }
}

/// Parameters in a path.
pub(super) fn of_path(path: &str, kind: &str) -> Vec<Parameter> {
    let in_path = |name: &'static str, description: Cow<'static, str>| Parameter {
        name,
        location: ParameterLocation::Path,
        description,
        ty: "string",
    };
    let mut out = Vec::new();
    if path.contains("{name}") {
        out.push(in_path("name", format!("name of the {kind}").into()));
    }
    if path.contains("{namespace}") {
        out.push(in_path("namespace", "Namespace of the objects.".into()));
    }
    if path.ends_with("{path}") {
        out.push(in_path("path", "path to the resource".into()));
    }
    out
}

fn writing() -> [Parameter; 3] {
    [
        string("dryRun", "`All`: process the request fully, store nothing."),
        string("fieldManager", "Name of the actor, for managedFields; at most 128 characters."),
        string(
            "fieldValidation",
            "What to do with unknown or duplicate fields: Ignore, Warn (default) or Strict.",
        ),
    ]
}

fn deletion() -> Vec<Parameter> {
    vec![
        string("dryRun", "`All`: process the request fully, store nothing."),
        integer("gracePeriodSeconds", "Seconds an object has to end; 0 deletes at once."),
        boolean(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "Delete an object that can no longer be read.",
        ),
        boolean("orphanDependents", "Deprecated: use propagationPolicy."),
        string("propagationPolicy", "What becomes of dependents: Orphan, Background or Foreground."),
    ]
}

fn selection(minor: Minor) -> Vec<Parameter> {
    let mut out = vec![
        string("continue", "Token of the previous page."),
        string("fieldSelector", "Only objects whose fields match."),
        string("labelSelector", "Only objects whose labels match."),
        integer("limit", "Most objects in one answer."),
        string("resourceVersion", "How fresh the answer must be, or where the watch starts."),
        string("resourceVersionMatch", "How resourceVersion is to be read: Exact or NotOlderThan."),
        boolean("sendInitialEvents", "A watch begins with the present objects."),
        integer("timeoutSeconds", "Seconds after which the answer ends."),
    ];
    if minor >= Minor::V36 {
        out.push(string(
            "shardSelector",
            "Only objects of these shards. The feature gate is off: no effect.",
        ));
    }
    out
}

fn logs() -> Vec<Parameter> {
    vec![
        string("container", "Which container; may be left out if there is only one."),
        boolean("follow", "Go on with what is written later."),
        boolean("insecureSkipTLSVerifyBackend", "Do not check the certificate of the node."),
        integer("limitBytes", "Most bytes in the answer."),
        string("pretty", "`true`: indent the answer."),
        boolean("previous", "The log of the container before its last restart."),
        integer("sinceSeconds", "Only lines of the last so many seconds."),
        string("stream", "Which stream: All (default), Stdout or Stderr."),
        integer("tailLines", "Only so many lines from the end."),
        boolean("timestamps", "Begin each line with its time."),
    ]
}

fn string(name: &'static str, description: &'static str) -> Parameter {
    in_query(name, description, "string")
}

fn integer(name: &'static str, description: &'static str) -> Parameter {
    in_query(name, description, "integer")
}

fn boolean(name: &'static str, description: &'static str) -> Parameter {
    in_query(name, description, "boolean")
}

fn in_query(name: &'static str, description: &'static str, ty: &'static str) -> Parameter {
    Parameter { name, location: ParameterLocation::Query, description: Cow::Borrowed(description), ty }
}
