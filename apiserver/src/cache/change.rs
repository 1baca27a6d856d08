//! One change of one object, as every watcher of it sees it: shared, and encoded at most once per form.

use super::entry::Entry;
use super::filter::Filter;
use super::form::{Form, Look, frame, turned, watch_line};
use bytes::Bytes;
use kstore_api::kind::Resource;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// A change at a revision. At least one of `new` and `old` is there.
#[derive(Debug)]
pub struct Change {
    /// The revision of the commit.
    pub revision: i64,
    /// The state after; `None`: deleted.
    pub new: Option<Arc<Entry>>,
    /// The state before; `None`: created.
    pub old: Option<Arc<Entry>>,
    /// The state before with this revision, for DELETED events; made when first needed.
    gone: OnceLock<Arc<Entry>>,
    /// The event as a line of JSON, by what is seen.
    lines: [OnceLock<Bytes>; 3],
    /// The event in the other forms, by what is seen; few changes are ever asked for these.
    others: OnceLock<Box<[[OnceLock<Bytes>; Form::OTHERS]; 3]>>,
    /// The event as few ask for it: in another version, or as a row of a table. One for each way to look at it.
    rare: Mutex<Vec<Rare>>,
}

/// The event, looked at in a way that is not worth a place of its own.
#[derive(Debug)]
struct Rare {
    resource: &'static Resource,
    seen: Seen,
    look: Look,
    event: Option<Bytes>,
}

/// How a change looks through a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It did not match and does now.
    Added,
    /// It matched and still does.
    Modified,
    /// It matched and no longer does, or is gone.
    Deleted,
}

impl Seen {
    /// The type of the watch event.
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

    /// The object before or after: for what never changes (kind, namespace, name).
    pub fn any(&self) -> &Arc<Entry> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has a state before or after")
    }

    /// How the change looks through `filter`; `None`: not at all.
    pub fn seen_by(&self, filter: &Filter) -> Option<Seen> {
        let was = self.old.as_ref().is_some_and(|e| filter.matches(e));
        let is = self.new.as_ref().is_some_and(|e| filter.matches(e));
        match (was, is) {
            (false, true) => Some(Seen::Added),
            (true, true) => Some(Seen::Modified),
            (true, false) => Some(Seen::Deleted),
            (false, false) => None,
        }
    }

    /// The object that an event of this kind carries.
    pub fn object(&self, seen: Seen) -> &Arc<Entry> {
        match seen {
            Seen::Added | Seen::Modified => self.new.as_ref().expect("what was added or modified is there"),
            Seen::Deleted => self.gone.get_or_init(|| {
                let old = self.old.as_ref().expect("what is deleted was there");
                Arc::new(old.deleted_at(self.revision))
            }),
        }
    }

    /// The event as a line of a JSON watch stream; encoded once, shared by all watchers.
    pub fn line(&self, seen: Seen) -> Bytes {
        self.lines[seen as usize].get_or_init(|| watch_line(seen.as_str(), &self.object(seen).json())).clone()
    }

    /// The object of the event as JSON: a part of its line.
    pub fn json(&self, seen: Seen) -> Bytes {
        let line = self.line(seen);
        let end = line.len() - b"}\n".len();
        line.slice(end - self.object(seen).json_len()..end)
    }

    /// The event in any form; encoded once, shared by all watchers. `None` if the object has no such form.
    pub fn event(&self, seen: Seen, form: Form) -> Option<Bytes> {
        let Some(place) = form.place() else { return Some(self.line(seen)) };
        let place = &self.others.get_or_init(Box::default)[seen as usize][place];
        if place.get().is_none() {
            let _ = place.set(frame(seen, self.object(seen), form)?);
        }
        place.get().cloned()
    }

    /// The event in any form and in any version of its kind; encoded once for each, shared by all watchers. `None` if the object
    /// has no such form.
    pub fn event_in(&self, seen: Seen, resource: &'static Resource, form: Form) -> Option<Bytes> {
        if form.is_of_all_versions() || resource.is_same_version(self.any().resource) {
            return self.event(seen, form);
        }
        self.looked_at(seen, resource, Look::Turned(form), |entry| turned(seen, entry, resource, form))
    }

    /// The event as somebody looks at its object in a version; made by the first who asks, while others wait. Of a look that
    /// changes with time only the newest is kept.
    pub fn looked_at(
        &self,
        seen: Seen,
        resource: &'static Resource,
        look: Look,
        make: impl FnOnce(&Entry) -> Option<Bytes>,
    ) -> Option<Bytes> {
        let mut rare = self.rare.lock();
        let same = |rare: &Rare| {
            rare.seen == seen && rare.look.replaces(look) && rare.resource.is_same_version(resource)
        };
        let place = rare.iter().position(same);
        if let Some(found) = place.map(|at| &rare[at]).filter(|found| found.look == look) {
            return found.event.clone();
        }
        let event = make(self.object(seen));
        let made = Rare { resource, seen, look, event: event.clone() };
        match place {
            Some(at) => rare[at] = made,
            None => rare.push(made),
        }
        event
    }

    /// Roughly what holding this change costs, in bytes: the object, and its event in one form. A deletion holds the last state.
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
            let [stored, other] = rows.map(|row| change.event_in(Seen::Added, row, form).unwrap());
            assert_eq!(Some(&stored), frame(Seen::Added, &entry, form).as_ref(), "{form:?}");
            match form.is_of_all_versions() {
                true => assert_eq!(stored.as_ptr(), other.as_ptr(), "{form:?}"),
                false => assert_eq!(Some(&other), turned(Seen::Added, &entry, rows[1], form).as_ref()),
            }
            let again = rows.map(|row| change.event_in(Seen::Added, row, form).unwrap().as_ptr());
            assert_eq!(again, [stored.as_ptr(), other.as_ptr()], "{form:?}");
        }
    }

    #[test]
    fn rows_are_shared_within_a_second_and_made_anew_in_the_next() {
        let (change, rows) = scaler();
        let mut made = 0;
        let mut look = |carries, second| {
            let look = Look::Row { version: MetaVersion::V1, carries, second };
            change.looked_at(Seen::Added, rows[1], look, |_| {
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
