//! Query parameters → options (apiserver.md §1.4, §3.1). Pure.

use super::router::decode_query;
use crate::cache::{Filter, WatchStart};
use crate::request::{
    DeleteOptions, FieldValidation, GetOptions, ListAt, ListOptions, Propagation, WatchOptions, WriteOptions,
};
use kstore_api::selector::{field, label};
use kstore_api::status::Status;

/// The query of a URL. The last value of a repeated parameter wins.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// From the text behind the `?`.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode_query(key), decode_query(value))
                })
                .collect(),
        )
    }

    /// The value of a parameter; "" when absent.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.iter().rev().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }

    /// A boolean as Kubernetes reads it: present and neither `false` nor `0`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.0.iter().rev().find(|(k, _)| k == key).is_some_and(|(_, v)| !matches!(v.as_str(), "false" | "0"))
    }

    /// Whether text is to be indented, if the query says so or says that it is not.
    pub(super) fn pretty(&self) -> Option<bool> {
        match self.get("pretty") {
            "" => None,
            text => Some(matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")),
        }
    }

    fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key) {
            "" => Ok(None),
            text => match text.parse::<i64>() {
                Ok(number) if number >= 0 => Ok(Some(number)),
                _ => Err(Status::bad_request(format!(
                    "invalid value {text:?} for query parameter {key}: must be a number"
                ))),
            },
        }
    }

    /// The resourceVersion: `None` when absent or empty.
    fn resource_version(&self) -> Result<Option<i64>, Status> {
        match self.get("resourceVersion") {
            "" => Ok(None),
            text => text.parse::<i64>().ok().filter(|v| *v >= 0).map(Some).ok_or_else(|| {
                Status::bad_request(format!("invalid resource version {text:?}: must be a number"))
            }),
        }
    }

    /// Options of a GET. With `resourceVersionMatch=Exact` it reads history.
    pub(super) fn get_options(&self) -> Result<GetOptions, Status> {
        let revision = self.resource_version()?.unwrap_or(0);
        Ok(match self.get("resourceVersionMatch") {
            "Exact" => GetOptions { exact: revision, not_older_than: 0 },
            _ => GetOptions { exact: 0, not_older_than: revision },
        })
    }

    /// What a list, watch or delete-collection selects. `named` is the object name of the path, if any.
    pub(super) fn filter(
        &self,
        resource: &'static kstore_api::kind::Resource,
        namespace: &str,
        named: &str,
    ) -> Result<Filter, Status> {
        let labels = label::Selector::parse(self.get("labelSelector"))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = field::Selector::parse(self.get("fieldSelector"))
            .and_then(|selector| selector.check(resource))
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let name = if named.is_empty() {
            fields.required("metadata.name").unwrap_or("").to_owned()
        } else {
            named.to_owned()
        };
        let mut namespace = namespace.to_owned();
        if namespace.is_empty() && resource.namespaced {
            fields.required("metadata.namespace").unwrap_or("").clone_into(&mut namespace);
        }
        Ok(Filter { resource, namespace, name, labels, fields })
    }

    /// Options of a LIST.
    pub(super) fn list_options(&self, filter: Filter) -> Result<ListOptions, Status> {
        if self.flag("sendInitialEvents") {
            return Err(invalid("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"));
        }
        let limit = self.number("limit")?.unwrap_or(0);
        let continue_token = self.get("continue").to_owned();
        let at = self.list_at(limit, !continue_token.is_empty())?;
        Ok(ListOptions { filter, limit, continue_token, at })
    }

    fn list_at(&self, limit: i64, continues: bool) -> Result<ListAt, Status> {
        let matching = self.get("resourceVersionMatch");
        let revision = self.resource_version()?;
        if continues && !matching.is_empty() {
            return Err(invalid(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if continues && revision.is_some_and(|r| r != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        match (matching, revision) {
            ("", None | Some(0)) => Ok(ListAt::Newest),
            ("", Some(revision)) if limit > 0 => Ok(ListAt::Exact(revision)),
            ("", Some(revision)) | ("NotOlderThan", Some(revision)) => Ok(ListAt::NotOlderThan(revision)),
            ("Exact", Some(0)) => Err(invalid(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            )),
            ("Exact", Some(revision)) => Ok(ListAt::Exact(revision)),
            ("Exact" | "NotOlderThan", None) => Err(invalid(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            (other, _) => Err(invalid(
                "resourceVersionMatch",
                &format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
            )),
        }
    }

    /// Options of a WATCH (the watch rows of §3.1).
    pub(super) fn watch_options(&self, filter: Filter) -> Result<WatchOptions, Status> {
        let matching = self.get("resourceVersionMatch");
        let revision = self.resource_version()?;
        let send = match self.get("sendInitialEvents") {
            "" => None,
            "false" | "0" => Some(false),
            _ => Some(true),
        };
        if send.is_some() && matching != "NotOlderThan" {
            return Err(invalid(
                "resourceVersionMatch",
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if send.is_none() && !matching.is_empty() {
            return Err(invalid(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        let start = match (send, revision) {
            (Some(true), _) | (None, None | Some(0)) => WatchStart::State,
            (Some(false), None | Some(0)) => WatchStart::After(0),
            (Some(false) | None, Some(revision)) => WatchStart::After(revision),
        };
        Ok(WatchOptions {
            filter,
            start,
            bookmarks: self.flag("allowWatchBookmarks"),
            mark_initial_end: (start == WatchStart::State).then(|| revision.unwrap_or(0)),
            timeout_seconds: self.number("timeoutSeconds")?.unwrap_or(0).unsigned_abs(),
        })
    }

    /// Options that all writes share. `kind` says of which options a refusal speaks, `agent` names the field manager when the
    /// query does not.
    pub(super) fn write_options(&self, kind: &str, agent: &str) -> Result<WriteOptions, Status> {
        let refused = |field: &str, problem: String| crate::error::invalid_option_of(kind, field, &problem);
        let unsupported = |field: &str, value: String, supported: &str| {
            refused(field, format!("Unsupported value: {value}: supported values: {supported}"))
        };
        let dry_run = match self.get("dryRun") {
            "" => false,
            "All" => true,
            other => return Err(unsupported("dryRun", format!("[{other:?}]"), "\"All\"")),
        };
        let field_validation = match self.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                return Err(unsupported("fieldValidation", format!("{other:?}"), supported));
            }
        };
        let field_manager = match self.get("fieldManager") {
            "" => agent.split('/').next().unwrap_or_default().to_owned(),
            manager if manager.len() > 128 => {
                return Err(refused("fieldManager", "Too long: may not be more than 128 bytes".into()));
            }
            manager if manager.chars().any(char::is_control) => {
                let problem = format!("Invalid value: {manager:?}: should only contain printable characters");
                return Err(refused("fieldManager", problem));
            }
            manager => manager.to_owned(),
        };
        Ok(WriteOptions {
            dry_run,
            field_manager,
            field_validation,
            force: self.flag("force"),
            books_kept: false,
        })
    }

    /// Delete options as query parameters, for clients that send no body.
    pub(super) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let propagation = match (self.get("propagationPolicy"), self.get("orphanDependents")) {
            ("", "") => None,
            ("", "true" | "1") => Some(Propagation::Orphan),
            ("", _) => Some(Propagation::Background),
            (policy, "") => Some(propagation(policy)?),
            (policy, _) => return Err(both_policies(policy)),
        };
        let grace = match self.get("gracePeriodSeconds") {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| Status::bad_request(format!("invalid gracePeriodSeconds {text:?}")))?,
            ),
        };
        Ok(DeleteOptions {
            grace_period_seconds: grace,
            propagation,
            accepts: matches!(self.get("orphanDependents"), "false" | "0"),
            ..DeleteOptions::default()
        })
    }
}

/// A propagation policy by name.
pub(super) fn propagation(policy: &str) -> Result<Propagation, Status> {
    match policy {
        "Orphan" => Ok(Propagation::Orphan),
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        other => {
            let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            let problem = format!("Unsupported value: {other:?}: {supported}");
            Err(crate::error::invalid_option_of("DeleteOptions", "propagationPolicy", &problem))
        }
    }
}

/// 422: two ways of saying what happens to dependents.
pub(super) fn both_policies(policy: &str) -> Status {
    let problem =
        format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
    crate::error::invalid_option_of("DeleteOptions", "propagationPolicy", &problem)
}

/// 422 about one option.
fn invalid(field: &str, problem: &str) -> Status {
    crate::error::invalid_option(field, problem)
}
