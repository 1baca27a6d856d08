//! From what was observed of a cluster and its clients to the [`History`] that the checker judges. Reads with selectors, of one namespace
//! or of one object are judged as reads of a kind of their own, whose changes are those that the selectors show. Pure.

use super::{Change, Delivered, History, Read, WatchLog, WriteLog};
use crate::request::{RequestTarget, Verb};
use kstore_api::selector::{field, label};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Faults after which nothing of a request has happened.
const REFUSED_BEFORE: [&str; 3] = ["error", "too-many", "unavailable"];

/// What was observed of a cluster and its clients.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Changes of objects, ascending by revision; the objects at the begin are changes, too.
    pub changes: Vec<ObservedChange>,
    /// Revision at the begin.
    pub begin: i64,
    /// Revision at the end.
    pub head: i64,
    /// Requests, ascending by their positions in the request log.
    pub requests: Vec<ShownRequest>,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedChange {
    /// Revision.
    pub revision: i64,
    /// `plural.group`.
    pub resource: String,
    /// Namespace; empty at cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels after the change.
    pub labels: Map<String, Value>,
    /// Whether the object exists afterwards.
    pub exists: bool,
    /// Agent of the writer up to the first slash; empty: not known.
    pub agent: String,
}

/// A request, and what its client was shown.
#[derive(Clone, Debug)]
pub struct ShownRequest {
    /// Position in the request log.
    pub n: u64,
    /// What was asked for.
    pub target: RequestTarget,
    /// Agent of the client up to the first slash.
    pub agent: String,
    /// Label selector.
    pub labels: String,
    /// Field selector.
    pub fields: String,
    /// Whether a list asks for a page, or goes on from one.
    pub is_page: bool,
    /// Whether a write may change something and its `resourceVersion` is a condition: no dry run, no server-side apply.
    pub is_plain: bool,
    /// Revision when the request came.
    pub began: i64,
    /// Revision when the answer had ended.
    pub ended: i64,
    /// HTTP status; 0: no answer.
    pub code: u16,
    /// Injected fault; empty: none.
    pub fault: String,
    /// The `resourceVersion` that a write sent; 0: none.
    pub sent: i64,
    /// The answer.
    pub answer: ShownAnswer,
}

/// What an answer showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ShownAnswer {
    /// Nothing that was read: an error, an answer in another form than JSON, or one that the client did not take to its end.
    #[default]
    Unread,
    /// A list.
    List {
        /// Its revision.
        revision: i64,
        /// Namespace and name of each object, with its revision.
        objects: BTreeMap<String, i64>,
        /// Whether further pages follow.
        has_more: bool,
    },
    /// Events of a watch.
    Events(Vec<Delivered>),
    /// An object.
    Object {
        /// Namespace and name.
        object: String,
        /// Its revision; 0: none.
        revision: i64,
    },
}

/// Namespace and name of an object as histories have them.
pub fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The objects of a kind that a read selects.
struct Scope {
    /// Name of the kind in the history: the resource, with the selection if there is one.
    kind: String,
    resource: String,
    namespace: String,
    labels: label::Selector,
    fields: field::Selector,
}

impl Scope {
    /// The scope of a read; `None` if its selectors need more of objects than histories have.
    fn of(request: &ShownRequest) -> Option<Self> {
        let target = &request.target;
        let labels = label::Selector::parse(&request.labels).ok()?;
        let fields = match target.name.is_empty() {
            true => field::Selector::parse(&request.fields).ok()?,
            false => field::Selector::one("metadata.name", &target.name),
        };
        let is_known = |term: &field::Term| ["metadata.name", "metadata.namespace"].contains(&&*term.field);
        if !fields.terms().iter().all(is_known) {
            return None;
        }
        let parts = [&target.namespace, &request.labels, &request.fields, &target.name];
        let kind = match parts.iter().all(|part| part.is_empty()) {
            true => target.resource.clone(),
            false => format!("{} {}", target.resource, parts.map(String::as_str).join(" ")),
        };
        let (resource, namespace) = (target.resource.clone(), target.namespace.clone());
        Some(Self { kind, resource, namespace, labels, fields })
    }

    fn selects(&self, change: &ObservedChange) -> bool {
        let field = |name: &str| match name {
            "metadata.name" => change.name.as_str(),
            _ => change.namespace.as_str(),
        };
        (self.namespace.is_empty() || self.namespace == change.namespace)
            && self.labels.matches(&change.labels)
            && self.fields.matches_fields(field)
    }

    /// The changes of the scope: an object that is no longer selected is gone.
    fn changes(&self, all: &[ObservedChange]) -> Vec<Change> {
        let mut selected = BTreeSet::new();
        let mut changes = Vec::new();
        for change in all.iter().filter(|change| change.resource == self.resource) {
            let object = object_key(&change.namespace, &change.name);
            let exists = change.exists && self.selects(change);
            let was = match exists {
                true => !selected.insert(object.clone()),
                false => selected.remove(&object),
            };
            if exists || was {
                changes.push(Change {
                    revision: change.revision,
                    resource: self.kind.clone(),
                    object,
                    exists,
                });
            }
        }
        changes
    }
}

impl Observed {
    /// The history that the checker judges. Requests whose answers were not read are not in it.
    pub fn history(&self) -> History {
        let mut scopes: BTreeMap<String, Scope> = BTreeMap::new();
        let mut history = History { compacted: self.begin, ..History::default() };
        for request in self.requests.iter().filter(|request| is_of_object(&request.target)) {
            if request.target.verb.is_write() {
                history.writes.extend(self.write(request));
                let whole = whole(&request.target.resource);
                scopes.insert(whole.kind.clone(), whole);
            } else if let Some(scope) = Scope::of(request) {
                history.reads.extend(read(request, &scope));
                history.watches.extend(self.watch(request, &scope));
                scopes.insert(scope.kind.clone(), scope);
            }
        }
        history.changes = scopes.values().flat_map(|scope| scope.changes(&self.changes)).collect();
        history.changes.sort_by_key(|change| change.revision);
        history
    }

    fn watch(&self, request: &ShownRequest, scope: &Scope) -> Option<WatchLog> {
        let ShownAnswer::Events(events) = &request.answer else { return None };
        let ended = if request.ended == 0 { self.head } else { request.ended };
        Some(WatchLog {
            n: request.n,
            resource: scope.kind.clone(),
            version: request.target.version,
            sends_initial_events: request.target.sends_initial_events,
            began: request.began,
            ended,
            events: events.clone(),
        })
    }

    fn write(&self, request: &ShownRequest) -> Option<WriteLog> {
        let target = &request.target;
        if !request.is_plain
            || request.code == 0
            || matches!(target.verb, Verb::DeleteCollection | Verb::Call)
        {
            return None;
        }
        let shown = match &request.answer {
            ShownAnswer::Object { object, revision } => Some((object.clone(), *revision)),
            _ => None,
        };
        let named = (!target.name.is_empty()).then(|| object_key(&target.namespace, &target.name));
        let object = named.or_else(|| shown.as_ref().map(|shown| shown.0.clone()))?;
        let is_refused_before = request.code == 429 || REFUSED_BEFORE.contains(&&*request.fault);
        // What a deletion answers is the object before, or after it is marked.
        let revision = shown.filter(|_| target.verb != Verb::Delete).map_or(0, |shown| shown.1);
        Some(WriteLog {
            n: request.n,
            resource: target.resource.clone(),
            sent: if request.fault.is_empty() || request.fault == "touch" { request.sent } else { 0 },
            ended: request.ended,
            code: request.code,
            revision,
            performed: if is_refused_before { self.performed(request, &object) } else { 0 },
            is_refused_before,
            object,
        })
    }

    /// The revision of a change that only this request can have made; 0: there is none.
    fn performed(&self, request: &ShownRequest, object: &str) -> i64 {
        let is_of_object = |other: &&ShownRequest| {
            other.target.resource == request.target.resource
                && other.target.verb.is_write()
                && other.agent == request.agent
                && (other.target.name.is_empty()
                    || object_key(&other.target.namespace, &other.target.name) == object)
        };
        let others = self.requests.iter().filter(|other| other.n != request.n).filter(is_of_object);
        // A change is another request's if that was answered with it, or may have made it although it has no such answer.
        let may_have_made = |other: &ShownRequest, change: i64| match &other.answer {
            ShownAnswer::Object { revision, .. } if (200..300).contains(&other.code) => *revision == change,
            _ => other.began < change && (other.ended == 0 || change <= other.ended),
        };
        let is_own = |change: &&ObservedChange| {
            change.revision > request.began
                && change.revision <= request.ended
                && change.agent == request.agent
                && change.resource == request.target.resource
                && object_key(&change.namespace, &change.name) == object
                && !others.clone().any(|other| may_have_made(other, change.revision))
        };
        self.changes.iter().find(is_own).map_or(0, |change| change.revision)
    }
}

/// Whether a request is about objects, and not about another subresource of one.
fn is_of_object(target: &RequestTarget) -> bool {
    ["", "status", "scale"].contains(&&*target.subresource)
}

/// All objects of a kind.
fn whole(resource: &str) -> Scope {
    Scope {
        kind: resource.to_owned(),
        resource: resource.to_owned(),
        namespace: String::new(),
        labels: label::Selector::everything(),
        fields: field::Selector::everything(),
    }
}

fn read(request: &ShownRequest, scope: &Scope) -> Option<Read> {
    let read = Read {
        n: request.n,
        resource: scope.kind.clone(),
        version: request.target.version,
        began: request.began,
        ended: request.ended,
        code: request.code,
        revision: 0,
        objects: BTreeMap::new(),
        is_list: request.target.verb == Verb::List,
    };
    match &request.answer {
        ShownAnswer::List { revision, objects, has_more } => {
            // A page has a part of the objects, and a later one the revision of the first.
            let is_list = !request.is_page && !has_more;
            let objects = if is_list { objects.clone() } else { BTreeMap::new() };
            Some(Read { revision: *revision, objects, is_list, ..read })
        }
        ShownAnswer::Object { object, revision } if request.target.verb == Verb::Get && *revision > 0 => {
            Some(Read { revision: *revision, objects: BTreeMap::from([(object.clone(), *revision)]), ..read })
        }
        // Refusals of faults are those of requests that are not performed, and pages expire.
        ShownAnswer::Unread
            if read.is_list && !request.is_page && request.code > 399 && request.fault.is_empty() =>
        {
            Some(read)
        }
        ShownAnswer::Unread | ShownAnswer::Object { .. } | ShownAnswer::Events(_) => None,
    }
}
