//! Who wrote a version of an object, as far as the object itself says: the newest entry of its managed fields. So `history` and the page
//! have writers and times of imported versions. Pure.

use kstore_api::{meta, object};
use kstore_registry::provenance::Note;
use serde_json::Value;

/// The user of imported writes, which no object names.
pub(crate) const USER: &str = "unknown";

/// The author of a version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    /// The field manager; empty if the object names none.
    pub(crate) manager: String,
    /// The verb of a request that updates the object, with its subresource.
    pub(crate) verb: String,
    /// Microseconds since 1970.
    time_us: i64,
}

impl Author {
    /// The author that an object names; `None` if it has no time.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let entries = object::list(&value["metadata"]["managedFields"]);
        let time = |text: &str| meta::parse_time(text).map(|time| time.as_microsecond());
        let dated = entries.iter().filter_map(|entry| Some((time(object::text(&entry["time"]))?, entry)));
        // Of several of the same second the last one: servers order entries by time.
        let Some((time_us, entry)) = dated.max_by_key(|(time_us, _)| *time_us) else {
            let time_us = time(meta::creation_timestamp(value))?;
            return Some(Self { manager: String::new(), verb: "update".to_owned(), time_us });
        };
        let verb = if object::text(&entry["operation"]) == "Apply" { "patch" } else { "update" };
        let verb = match object::text(&entry["subresource"]) {
            "" => verb.to_owned(),
            subresource => format!("{verb}/{subresource}"),
        };
        Some(Self { manager: object::text(&entry["manager"]).to_owned(), verb, time_us })
    }

    /// The provenance of the version, whose user nothing tells. Its time is not before that of an older revision.
    pub(super) fn note(self, is_first: bool, not_before: i64) -> Note {
        let verb = if is_first { "create".to_owned() } else { self.verb };
        let time_us = self.time_us.max(not_before);
        Note { user: USER.to_owned(), agent: self.manager, verb, causes: Vec::new(), time_us }
    }

    /// The author of a version whose managed fields are those of the version before.
    pub(super) fn unknown(self) -> Self {
        Self { manager: String::new(), verb: "update".to_owned(), ..self }
    }
}

/// The provenance of a deletion.
pub(super) fn deletion(time_us: i64) -> Note {
    let (user, verb) = (USER.to_owned(), "delete".to_owned());
    Note { user, agent: String::new(), verb, causes: Vec::new(), time_us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_entry_of_managed_fields_is_the_author() {
        let entry = |manager: &str, operation: &str, time: &str, subresource: &str| json!({"manager": manager, "operation": operation, "time": time, "subresource": subresource});
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
            entry("kubectl", "Apply", "2026-01-01T00:00:05Z", ""),
            entry("kubelet", "Update", "2026-01-01T00:00:09Z", "status"),
            entry("kube-scheduler", "Update", "2026-01-01T00:00:07Z", "")]}});
        let note = Author::of(&object).unwrap().note(false, 0);
        assert_eq!(
            (&*note.agent, &*note.verb, note.time_us),
            ("kubelet", "update/status", 1_767_225_609_000_000)
        );
        let first = Author::of(&object).unwrap().note(true, i64::MAX);
        assert_eq!((&*first.verb, first.time_us), ("create", i64::MAX));
        let unknown = Author::of(&object).unwrap().unknown().note(false, 0);
        assert_eq!((&*unknown.user, &*unknown.agent, &*unknown.verb), ("unknown", "", "update"));
        let plain = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(Author::of(&plain).unwrap().note(true, 0).time_us, 1_767_225_600_000_000);
        assert_eq!(Author::of(&json!({"metadata": {}})), None);
    }
}
