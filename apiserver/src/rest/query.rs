//! Query parameters → options of requests. Pure. `list_query` handles the options of LIST and WATCH.

use super::list_query::revision;
use crate::agent::{check_field_manager, default_field_manager};
use kstore_access::percent_encoding::decode_query;
use kstore_api::status::Status;
use kstore_registry::decode::delete_options::{UNSAFE, both_policies, contradicting, propagation};
use kstore_registry::request::{
    DeleteOptions, FieldValidation, GetOptions, ManagedFieldsUpdate, Propagation, WriteOptions,
};

/// The parameter by which lists and watches include objects that wait for initializers, and a create does not
/// wait for them.
pub(super) const UNINITIALIZED: &str = "includeUninitialized";

/// The query of a URL. The first value of a repeated parameter counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?`.
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

    /// The value of a parameter; "" if it is absent.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }

    /// All values of a parameter, in order.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// A boolean by Kubernetes' rule: true if present and neither `0` nor, in any case, `false`.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .is_some_and(|(_, v)| v != "0" && !v.eq_ignore_ascii_case("false"))
    }

    /// Whether the query asks for indented text, or for text without indentation; `None` if it states
    /// neither.
    pub(super) fn pretty(&self) -> Option<bool> {
        match self.get("pretty") {
            "" => None,
            text => Some(matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")),
        }
    }

    /// Whether the parameter is present.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// A parameter that is none of these.
    pub(super) fn other_than(&self, known: &[&str]) -> Option<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).find(|key| !known.contains(key))
    }

    /// A number; `None` if absent or empty.
    pub(super) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let range = matches!(error.kind(), NegOverflow | PosOverflow);
                let why = if range { "value out of range" } else { "invalid syntax" };
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
            }),
        }
    }

    /// Parses the options of a GET. With `resourceVersionMatch=Exact` it reads history.
    pub(super) fn get_options(&self) -> Result<GetOptions, Status> {
        if self.flag("export") {
            let text = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(text));
        }
        let revision = revision(self.get("resourceVersion")).map_err(|error| {
            Status::bad_request(format!("invalid resource version: {}", error.aggregate()))
        })?;
        let revision = revision.unwrap_or(0);
        Ok(match self.get("resourceVersionMatch") {
            "Exact" => GetOptions { exact: revision, not_older_than: 0 },
            _ => GetOptions { exact: 0, not_older_than: revision },
        })
    }

    /// Parses the options that all writes share. `kind` is the name of the options in refusals. `agent`
    /// determines the field manager if the query does not state one.
    pub(super) fn write_options(&self, kind: &str, agent: &str) -> Result<WriteOptions, Status> {
        let refused =
            |field: &str, problem: String| kstore_registry::error::invalid_option_of(kind, field, &problem);
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
            "" => default_field_manager(agent),
            manager => {
                check_field_manager(manager).map_err(|problem| refused("fieldManager", problem))?;
                manager.to_owned()
            }
        };
        Ok(WriteOptions {
            dry_run,
            field_manager,
            names_manager: !self.get("fieldManager").is_empty(),
            field_validation,
            names_validation: !self.get("fieldValidation").is_empty(),
            force: self.flag("force"),
            managed_fields: ManagedFieldsUpdate::Tracked,
            includes_uninitialized: self.flag(UNINITIALIZED),
        })
    }

    /// Parses delete options from the query, for clients that send no body.
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
            unsafe_deletion: self.flag(UNSAFE).then(|| contradicting(|option| !self.get(option).is_empty())),
            ..DeleteOptions::default()
        })
    }
}
