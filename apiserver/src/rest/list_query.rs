//! Query parameters of LIST and WATCH → options: resourceVersion, resourceVersionMatch and continue. Refusals
//! have Kubernetes' texts. Pure.

use super::query::Query;
use kstore_api::field::{ErrorList, FieldError, FieldErrorKind, Path};
use kstore_api::resource::Resource;
use kstore_api::selector::field;
use kstore_api::status::Status;
use kstore_registry::cache::{Filter, WatchStart};
use kstore_registry::request::{ListAt, ListOptions, WatchOptions};
use kstore_registry::selectors::SelectorBudget;

const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

impl Query {
    /// The selection of a list, watch or delete-collection. `named` is the object name in the path, if any.
    pub(super) fn filter(
        &self,
        resource: &'static Resource,
        namespace: &str,
        named: &str,
    ) -> Result<Filter, Status> {
        let (labels, fields) = (self.get("labelSelector"), self.get("fieldSelector"));
        let (labels, fields) = SelectorBudget::default().parse(resource, labels, fields)?;
        let selected = fields.required(field::NAME);
        if !named.is_empty() && !fields.is_everything() && selected != Some(named) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        let name = if named.is_empty() { selected.unwrap_or_default() } else { named }.to_owned();
        let mut namespace = namespace.to_owned();
        if namespace.is_empty() && resource.namespaced {
            fields.required(field::NAMESPACE).unwrap_or_default().clone_into(&mut namespace);
        }
        Ok(Filter { resource, namespace, name, labels, fields, declared: None, includes_uninitialized: true })
    }

    /// Parses the options of a LIST.
    pub(super) fn list_options(&self, filter: Filter) -> Result<ListOptions, Status> {
        let limit = self.number("limit")?.unwrap_or(0).max(0);
        self.number("timeoutSeconds")?;
        refuse(&self.list_errors())?;
        let continue_token = self.get("continue").to_owned();
        let version = self.get("resourceVersion");
        let revision = revision(version).map_err(|error| {
            Status::bad_request(format!("invalid resource version: {}", error.aggregate()))
        })?;
        if !continue_token.is_empty() && revision.is_some_and(|r| r != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let at = match (self.get("resourceVersionMatch"), revision) {
            (_, None | Some(0)) => ListAt::Newest,
            (EXACT, Some(revision)) => ListAt::Exact(revision),
            // For clients that do not know resourceVersionMatch, a page is at exactly this revision.
            ("", Some(revision)) if limit > 0 => ListAt::Exact(revision),
            (_, Some(revision)) => ListAt::NotOlderThan(revision),
        };
        Ok(ListOptions { filter, limit, continue_token, at })
    }

    fn list_errors(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let (matching, version) = (self.get("resourceVersionMatch"), self.get("resourceVersion"));
        let path = Path::new("resourceVersionMatch");
        if !matching.is_empty() {
            if version.is_empty() {
                errors
                    .forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.get("continue").is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if ![EXACT, NOT_OLDER_THAN].contains(&matching) {
                errors.push(unknown_match(matching, "\"Exact\", \"NotOlderThan\", \"\""));
            }
            if matching == EXACT && version == "0" {
                errors.forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if self.has("sendInitialEvents") {
            let path = Path::new("sendInitialEvents");
            errors.forbidden(&path, "sendInitialEvents is forbidden for list");
        }
        errors
    }

    /// Parses the options of a WATCH. `begins_with_state` says whether the server lets clients ask for the initial state (`WatchList`).
    pub(super) fn watch_options(
        &self,
        filter: Filter,
        begins_with_state: bool,
    ) -> Result<WatchOptions, Status> {
        let timeout_seconds = self.number("timeoutSeconds")?.unwrap_or(0).max(0).unsigned_abs();
        self.number("limit")?;
        refuse(&self.watch_errors(begins_with_state))?;
        // Kubernetes returns this error of its watch cache unchanged; a list answers 400.
        let revision = revision(self.get("resourceVersion"))
            .map_err(|errors| Status::unclassified(errors.aggregate()))?;
        let send = self.has("sendInitialEvents").then(|| self.flag("sendInitialEvents"));
        let start = match (send, revision) {
            // A watch without a revision begins with the initial state, as if it had asked for it.
            (Some(true), _) | (None, None | Some(0)) => WatchStart::State,
            (Some(false), None | Some(0)) => WatchStart::After(0),
            (Some(false) | None, Some(revision)) => WatchStart::Resume(revision),
        };
        Ok(WatchOptions {
            filter,
            start,
            bookmarks: self.flag("allowWatchBookmarks"),
            mark_initial_end: (start == WatchStart::State).then(|| revision.unwrap_or(0)),
            timeout_seconds,
        })
    }

    fn watch_errors(&self, begins_with_state: bool) -> ErrorList {
        let mut errors = ErrorList::new();
        let (matching, send) = (self.get("resourceVersionMatch"), self.has("sendInitialEvents"));
        let path = Path::new("resourceVersionMatch");
        if send && matching != NOT_OLDER_THAN {
            errors
                .forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        // client-go lists instead.
        if send && !begins_with_state {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.forbidden(&Path::new("sendInitialEvents"), why);
        }
        if !matching.is_empty() {
            if !send {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.forbidden(&path, why);
            }
            if matching != NOT_OLDER_THAN {
                errors.push(unknown_match(matching, "\"NotOlderThan\""));
            }
            if !self.get("continue").is_empty() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
        }
        errors
    }
}

/// The error of an unknown match. Its supported values keep this order, unlike other sets.
fn unknown_match(matching: &str, supported: &str) -> FieldError {
    FieldError {
        kind: FieldErrorKind::NotSupported,
        field: "resourceVersionMatch".into(),
        value: Some(format!("{matching:?}")),
        detail: format!("supported values: {supported}"),
    }
}

fn refuse(errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors))
}

/// Parses a resourceVersion; `None` if the text is empty.
pub(super) fn revision(text: &str) -> Result<Option<i64>, ErrorList> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let why = match text.parse() {
        Ok(revision) if digits => return Ok(Some(revision)),
        _ if digits => "value out of range",
        _ => "invalid syntax",
    };
    let mut errors = ErrorList::new();
    errors.invalid(
        &Path::new("resourceVersion"),
        text,
        format!("strconv.ParseUint: parsing {text:?}: {why}"),
    );
    Err(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::lookup;

    fn pods() -> Filter {
        Filter::all(lookup("", "v1", "pods").unwrap())
    }

    fn list(query: &str) -> Result<ListAt, (u16, String)> {
        let options = Query::parse(Some(query)).list_options(pods());
        options.map(|options| options.at).map_err(|status| (status.code, status.message))
    }

    fn watch(query: &str) -> Result<(WatchStart, Option<i64>), (u16, String)> {
        let options = Query::parse(Some(query)).watch_options(pods(), true);
        options.map(|o| (o.start, o.mark_initial_end)).map_err(|status| (status.code, status.message))
    }

    #[test]
    fn list_options_choose_the_revision() {
        for (query, at) in [
            ("", ListAt::Newest),
            ("resourceVersion=0", ListAt::Newest),
            ("resourceVersion=0&limit=5", ListAt::Newest),
            ("resourceVersion=7", ListAt::NotOlderThan(7)),
            ("resourceVersion=7&limit=5", ListAt::Exact(7)),
            ("resourceVersion=7&limit=-1", ListAt::NotOlderThan(7)),
            ("resourceVersion=7&resourceVersionMatch=Exact", ListAt::Exact(7)),
            ("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5", ListAt::NotOlderThan(7)),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", ListAt::Newest),
            ("continue=x&resourceVersion=0", ListAt::Newest),
        ] {
            assert_eq!(list(query), Ok(at), "{query}");
        }
    }

    #[test]
    fn contradictory_list_options_are_refused_with_kubernetes_messages() {
        let invalid = |text: &str| (422, format!("ListOptions.meta.k8s.io \"\" is invalid: {text}"));
        let supported = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
        for (query, want) in [
            (
                "resourceVersionMatch=Exact",
                invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                ),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ),
            ),
            (
                "resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x",
                invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
                ),
            ),
            (
                "resourceVersionMatch=Latest&resourceVersion=1",
                invalid(&format!("resourceVersionMatch: Unsupported value: \"Latest\": {supported}")),
            ),
            (
                "resourceVersionMatch=x&sendInitialEvents=true",
                invalid(&format!(
                    "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, \
                     resourceVersionMatch: Unsupported value: \"x\": {supported}, \
                     sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]"
                )),
            ),
            (
                "continue=x&resourceVersion=5",
                (400, "specifying resource version is not allowed when using continue".into()),
            ),
            (
                "resourceVersion=abc",
                (
                    400,
                    "invalid resource version: resourceVersion: Invalid value: \"abc\": \
                    strconv.ParseUint: parsing \"abc\": invalid syntax"
                        .into(),
                ),
            ),
            ("limit=many", (400, "strconv.ParseInt: parsing \"many\": invalid syntax".into())),
        ] {
            assert_eq!(list(query), Err(want), "{query}");
        }
    }

    #[test]
    fn watch_options_choose_the_start() {
        use WatchStart::{After, Resume, State};
        for (query, want) in [
            ("", (State, Some(0))),
            ("resourceVersion=0", (State, Some(0))),
            ("resourceVersion=7", (Resume(7), None)),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", (State, Some(0))),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", (State, Some(7))),
            ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", (After(0), None)),
            ("sendInitialEvents=0&resourceVersionMatch=NotOlderThan&resourceVersion=7", (Resume(7), None)),
        ] {
            assert_eq!(watch(query), Ok(want), "{query}");
        }
    }

    #[test]
    fn contradictory_watch_options_are_refused_with_kubernetes_messages() {
        let invalid = |text: &str| Err((422, format!("ListOptions.meta.k8s.io \"\" is invalid: {text}")));
        let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let alone = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        let exact = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
        assert_eq!(watch("sendInitialEvents=true"), invalid(requires));
        assert_eq!(watch("resourceVersionMatch=NotOlderThan&resourceVersion=1"), invalid(alone));
        assert_eq!(
            watch("resourceVersionMatch=Exact&resourceVersion=1"),
            invalid(&format!("[{alone}, {exact}]"))
        );
        let both = watch("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1");
        assert_eq!(both, invalid(&format!("[{requires}, {exact}]")));
        let text = "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
        assert_eq!(watch("resourceVersion=x"), Err((500, text.into())));
    }

    #[test]
    fn initial_events_are_refused_by_a_server_without_them() {
        let watch = |begins_with_state| {
            let query = Query::parse(Some("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
            query.watch_options(pods(), begins_with_state).map_err(|status| status.message)
        };
        let refused = watch(false).unwrap_err();
        assert!(refused.contains("sendInitialEvents is forbidden for watch unless"), "{refused}");
        assert!(watch(true).is_ok());
    }

    #[test]
    fn the_name_in_a_field_selector_must_match_the_path() {
        let row = lookup("", "v1", "pods").unwrap();
        let filter =
            |query: &str, named: &str| Query::parse(Some(query)).filter(row, "ns", named).map(|f| f.name);
        assert_eq!(filter("fieldSelector=metadata.name%3Da", "a").unwrap(), "a");
        assert_eq!(filter("fieldSelector=metadata.name%3Da", "").unwrap(), "a");
        for query in ["fieldSelector=metadata.name%3Db", "fieldSelector=status.phase%3DRunning"] {
            let message = filter(query, "a").unwrap_err().message;
            assert_eq!(message, "fieldSelector metadata.name doesn't match requested name");
        }
        let whole = Query::parse(Some("fieldSelector=metadata.namespace%3Dx")).filter(row, "", "").unwrap();
        assert_eq!(whole.namespace, "x");
    }
}
