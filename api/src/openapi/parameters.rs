//! Query and path parameters, per verb.

use serde_json::{Value, json};

/// Parameters of an operation, by its action.
pub(super) fn of_action(action: &str) -> Vec<Value> {
    let dry_run = || string("dryRun", "`All`: process the request fully, store nothing.");
    let manager = || string("fieldManager", "Name of the actor, for managedFields; at most 128 characters.");
    let validation = || {
        string(
            "fieldValidation",
            "What to do with unknown or duplicate fields: Ignore, Warn (default) or Strict.",
        )
    };
    match action {
        "post" | "put" => vec![dry_run(), manager(), validation()],
        "patch" => {
            let force = boolean("force", "Take over fields that other managers own; for apply patches only.");
            vec![dry_run(), manager(), validation(), force]
        }
        "delete" => deletion(dry_run()),
        "deletecollection" => deletion(dry_run()).into_iter().chain(selection()).collect(),
        "list" => selection()
            .into_iter()
            .chain([
                boolean("watch", "Answer with changes as they happen."),
                boolean("allowWatchBookmarks", "A watch may send BOOKMARK events."),
            ])
            .collect(),
        _ => Vec::new(),
    }
}

/// Parameters of a path.
pub(super) fn of_path(path: &str) -> Vec<Value> {
    let in_path = |name: &str, description: &str| {
        let schema = json!({"type": "string", "uniqueItems": true});
        json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
    };
    let mut out = Vec::new();
    if path.contains("{name}") {
        out.push(in_path("name", "Name of the object."));
    }
    if path.contains("{namespace}") {
        out.push(in_path("namespace", "Namespace of the objects."));
    }
    out.push(string("pretty", "`true`: indent the answer."));
    out
}

fn deletion(dry_run: Value) -> Vec<Value> {
    vec![
        dry_run,
        integer("gracePeriodSeconds", "Seconds an object has to end; 0 deletes at once."),
        boolean("orphanDependents", "Deprecated: use propagationPolicy."),
        string("propagationPolicy", "What becomes of dependents: Orphan, Background or Foreground."),
    ]
}

fn selection() -> Vec<Value> {
    vec![
        string("continue", "Token of the previous page."),
        string("fieldSelector", "Only objects whose fields match."),
        string("labelSelector", "Only objects whose labels match."),
        integer("limit", "Most objects in one answer."),
        string("resourceVersion", "How fresh the answer must be, or where the watch starts."),
        string("resourceVersionMatch", "How resourceVersion is to be read: Exact or NotOlderThan."),
        boolean("sendInitialEvents", "A watch begins with the present objects."),
        integer("timeoutSeconds", "Seconds after which the answer ends."),
    ]
}

fn string(name: &str, description: &str) -> Value {
    in_query(name, description, "string")
}

fn integer(name: &str, description: &str) -> Value {
    in_query(name, description, "integer")
}

fn boolean(name: &str, description: &str) -> Value {
    in_query(name, description, "boolean")
}

fn in_query(name: &str, description: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": true}})
}
