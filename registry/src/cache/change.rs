//! One change of one object, shared by all watchers and encoded at most once per form.

use super::filter::Filter;
use super::form::{Form, RareForm, converted_event, frame, watch_line};
use crate::entry::Entry;
use bytes::Bytes;
use kstore_api::resource::Resource;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// A change of an object at a revision. At least one of `new` and `old` is present.
#[derive(Debug)]
pub struct Change {
    /// The revision of the commit.
    pub revision: i64,
    /// The object after the change; `None`: deleted.
    pub new: Option<Arc<Entry>>,
    /// The object before the change; `None`: created.
    pub old: Option<Arc<Entry>>,
    /// The old state with the revision of its deletion, for DELETED events. Made when first needed.
    gone: OnceLock<Arc<Entry>>,
    /// The event as a line of JSON, for each event type.
    lines: [OnceLock<Bytes>; 3],
    /// The event in the other forms, for each event type. Boxed because few changes are requested in these.
    others: OnceLock<Box<[[OnceLock<Bytes>; Form::OTHERS]; 3]>>,
    /// The event in rarely requested forms: in another version of the kind, or as a table row.
    rare: Mutex<Vec<RareEvent>>,
}

/// An event encoded in a rarely requested form.
#[derive(Debug)]
struct RareEvent {
    resource: &'static Resource,
    seen: EventType,
    look: RareForm,
    event: Option<Bytes>,
}

/// The type of the watch event that a change is for a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object did not match before and matches now.
    Added,
    /// The object matched before and still matches.
    Modified,
    /// The object matched before and no longer matches, or is deleted.
    Deleted,
}

impl EventType {
    /// The type as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// A change from `old` to `new`.
    ///
    /// # Panics
    /// When both are `None`.
    pub fn new(revision: i64, new: Option<Arc<Entry>>, old: Option<Arc<Entry>>) -> Self {
        assert!(new.is_some() || old.is_some(), "a change has a state before or after");
        let (gone, lines, others, rare) = Default::default();
        Self { revision, new, old, gone, lines, others, rare }
    }

    /// The object after or before the change, for properties that never change: kind, namespace, name.
    pub fn any(&self) -> &Arc<Entry> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has a state before or after")
    }

    /// The event type of the change for `filter`; `None` if the filter matches neither state.
    pub fn seen_by(&self, filter: &Filter) -> Option<EventType> {
        let was = self.old.as_ref().is_some_and(|e| filter.matches(e));
        let is = self.new.as_ref().is_some_and(|e| filter.matches(e));
        match (was, is) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    /// The object in an event of this type.
    pub fn object(&self, seen: EventType) -> &Arc<Entry> {
        match seen {
            EventType::Added | EventType::Modified => {
                self.new.as_ref().expect("what was added or modified is there")
            }
            EventType::Deleted => self.gone.get_or_init(|| {
                let old = self.old.as_ref().expect("what is deleted was there");
                Arc::new(old.deleted_at(self.revision))
            }),
        }
    }

    /// The event as a line of a JSON watch stream; encoded once, shared by all watchers.
    pub fn line(&self, seen: EventType) -> Bytes {
        self.lines[seen as usize].get_or_init(|| watch_line(seen.as_str(), &self.object(seen).json())).clone()
    }

    /// The object of the event as JSON: a slice of its line.
    pub fn json(&self, seen: EventType) -> Bytes {
        let line = self.line(seen);
        let end = line.len() - b"}\n".len();
        line.slice(end - self.object(seen).json_len()..end)
    }

    /// The event in any form, encoded once and shared by all watchers. `None` if the kind has no such form.
    pub fn event(&self, seen: EventType, form: Form) -> Option<Bytes> {
        let Some(index) = form.index() else { return Some(self.line(seen)) };
        let index = &self.others.get_or_init(Box::default)[seen as usize][index];
        if index.get().is_none() {
            let _ = index.set(frame(seen, self.object(seen), form)?);
        }
        index.get().cloned()
    }

    /// The event in any form and in any version of its kind, encoded once for each and shared by all
    /// watchers. `None` if the kind has no such form.
    pub fn event_in(&self, seen: EventType, resource: &'static Resource, form: Form) -> Option<Bytes> {
        if form.is_of_all_versions() || resource.is_same_version(self.any().resource) {
            return self.event(seen, form);
        }
        self.rare_event(seen, resource, RareForm::Converted(form), |entry| {
            converted_event(seen, entry, resource, form)
        })
    }

    /// The event in a rare form. The first caller makes it while others wait. Of a form that depends on the
    /// time only the newest is kept.
    pub fn rare_event(
        &self,
        seen: EventType,
        resource: &'static Resource,
        look: RareForm,
        make: impl FnOnce(&Entry) -> Option<Bytes>,
    ) -> Option<Bytes> {
        let mut rare = self.rare.lock();
        let same = |rare: &RareEvent| {
            rare.seen == seen && rare.look.replaces(look) && rare.resource.is_same_version(resource)
        };
        let index = rare.iter().position(same);
        if let Some(found) = index.map(|at| &rare[at]).filter(|found| found.look == look) {
            return found.event.clone();
        }
        let event = make(self.object(seen));
        let made = RareEvent { resource, seen, look, event: event.clone() };
        match index {
            Some(at) => rare[at] = made,
            None => rare.push(made),
        }
        event
    }

    /// Estimated memory of this change in bytes: its object, and its event in one form. A deletion counts its
    /// last state.
    pub fn weight(&self) -> usize {
        256 + 2 * self.any().weight()
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::MetaVersion;
    use super::*;
    use kstore_api::{kind, object};
    use serde_json::json;

    const SCALERS: &str = "horizontalpodautoscalers";

    fn scaler() -> (Change, [&'static Resource; 2]) {
        let rows = ["v2", "v1"].map(|version| kind::lookup("autoscaling", version, SCALERS).unwrap());
        let value = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": "ns", "uid": "u"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        let stored = object::encode_stored(&value).into();
        let entry = Entry::new(rows[0], &rows[0].storage_key("ns", "h"), &value, stored, 5, 5).unwrap();
        (Change::new(5, Some(Arc::new(entry)), None), rows)
    }

    #[test]
    fn an_event_is_encoded_once_for_each_form_in_every_version() {
        let (change, rows) = scaler();
        let entry = change.any().clone();
        let partial = MetaVersion::V1;
        for form in [Form::Json, Form::Protobuf, Form::Partial(partial), Form::PartialProtobuf(partial)] {
            let [stored, other] = rows.map(|row| change.event_in(EventType::Added, row, form).unwrap());
            assert_eq!(Some(&stored), frame(EventType::Added, &entry, form).as_ref(), "{form:?}");
            match form.is_of_all_versions() {
                true => assert_eq!(stored.as_ptr(), other.as_ptr(), "{form:?}"),
                false => assert_eq!(
                    Some(&other),
                    converted_event(EventType::Added, &entry, rows[1], form).as_ref()
                ),
            }
            let again = rows.map(|row| change.event_in(EventType::Added, row, form).unwrap().as_ptr());
            assert_eq!(again, [stored.as_ptr(), other.as_ptr()], "{form:?}");
        }
    }

    #[test]
    fn table_rows_are_shared_within_a_second_and_made_again_in_the_next() {
        let (change, rows) = scaler();
        let mut made = 0;
        let mut look = |carries, second| {
            let look = RareForm::Row { version: MetaVersion::V1, carries, second };
            change.rare_event(EventType::Added, rows[1], look, |_| {
                made += 1;
                Some(Bytes::from(format!("{carries}{second}")))
            })
        };
        let seen = [("None", 1), ("None", 1), ("Object", 1), ("None", 2), ("None", 2), ("Object", 1)]
            .map(|(carries, second)| look(carries, second).unwrap());
        assert_eq!(seen, ["None1", "None1", "Object1", "None2", "None2", "Object1"]);
        assert_eq!((made, change.rare.lock().len()), (3, 2));
    }
}
