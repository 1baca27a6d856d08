//! Objects of a cluster as calls of the lab name them, and the conditions that `/wait` waits for.

use crate::error::{bad_request, ended};
use crate::host::Running;
use crate::limits;
use kstore_api::status::Status;
use kstore_cel::{Env, Library, Program, Shape, Type, Val};
use kstore_client::{Client, Gvr};
use kstore_registry::user::UserInfo;
use kstore_storage::storage_key::KeyPlace;
use kstore_store::{KeyRange, KeyValue, Range, Store, WatchRequest};
use serde_json::Value;
use std::sync::Arc;

/// Prefix of the keys of all objects.
const ROOT: &str = "/registry/";

/// User agent of the lab's own reads.
const AGENT: &str = "kstore-lab";

/// Number of objects in a store.
pub fn count(store: &Store) -> u64 {
    let range = Range { count_only: true, ..Range::new(KeyRange::prefix(ROOT)) };
    store.range(&range).map_or(0, |result| u64::try_from(result.count).unwrap_or(0))
}

/// All objects of a store with their resources as `plural.group`, by key.
pub fn all(store: &Store) -> Vec<(String, Value)> {
    let range = Range::new(KeyRange::prefix(ROOT));
    let Ok(result) = store.range(&range) else { return Vec::new() };
    let object = |kv: &KeyValue| {
        let place = KeyPlace::of(std::str::from_utf8(kv.key()).ok()?)?;
        Some((resource_of(&place), serde_json::from_slice(kv.value()).ok()?))
    };
    result.kvs.iter().filter_map(|kv| object(kv)).collect()
}

/// All objects of a store with their resources as `plural.group` and their revisions, by key.
pub(crate) fn versions(store: &Store) -> Vec<(String, i64, Value)> {
    let range = Range::new(KeyRange::prefix(ROOT));
    let Ok(result) = store.range(&range) else { return Vec::new() };
    let object = |kv: &KeyValue| {
        let place = KeyPlace::of(std::str::from_utf8(kv.key()).ok()?)?;
        Some((resource_of(&place), kv.mod_revision().0, serde_json::from_slice(kv.value()).ok()?))
    };
    result.kvs.iter().filter_map(|kv| object(kv)).collect()
}

fn resource_of(place: &KeyPlace<'_>) -> String {
    match place.group {
        "" => place.plural.to_owned(),
        group => format!("{}.{group}", place.plural),
    }
}

/// An object as calls name it: `jobs.batch/namespace/name`, or `nodes/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Plural.
    pub plural: String,
    /// Group; empty for the core group.
    pub group: String,
    /// Namespace; empty at cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// Reads a name.
    ///
    /// # Errors
    /// 400: it has another form.
    pub fn parse(text: &str, pointer: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split('/').collect();
        let (resource, namespace, name) = match parts[..] {
            [resource, name] => (resource, "", name),
            [resource, namespace, name] => (resource, namespace, name),
            _ => return Err(bad_request(pointer, "use RESOURCE/NAMESPACE/NAME, as in jobs.batch/default/a")),
        };
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        if plural.is_empty() || name.is_empty() {
            return Err(bad_request(pointer, "use RESOURCE/NAMESPACE/NAME, as in jobs.batch/default/a"));
        }
        let owned = str::to_owned;
        Ok(Self {
            plural: owned(plural),
            group: owned(group),
            namespace: owned(namespace),
            name: owned(name),
        })
    }

    /// The kind with a version that the server serves; `None` if it serves none.
    pub fn gvr(&self, running: &Running) -> Option<Gvr> {
        let kinds = running.api().pipeline().cache().kinds();
        let version = kinds
            .rows()
            .versions(&self.group)
            .find(|version| kinds.lookup(&self.group, version, &self.plural).is_some())?;
        Some(Gvr::new(self.group.clone(), version.to_owned(), self.plural.clone()))
    }
}

/// What an object has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// It exists and has these members.
    Matches(Value),
    /// Its status has this condition with status `True`.
    Is(String),
    /// It exists, and a CEL expression about `object` is true.
    Holds(Expression),
    /// It does not exist.
    Deleted,
    /// The object with this UID does not exist: there is none of its name, or one that was created after it.
    Gone(String),
}

/// A compiled CEL expression about an object.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    program: Arc<Program>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Expression {
    /// Compiles an expression whose variable is `object`.
    ///
    /// # Errors
    /// 400: it is too long, has errors, or is neither true nor false.
    pub fn compile(text: &str, pointer: &str) -> Result<Self, Status> {
        if text.len() > limits::EXPRESSION_BYTES {
            return Err(bad_request(pointer, format!("has at most {} bytes", limits::EXPRESSION_BYTES)));
        }
        let libraries = [Library::Optional, Library::Strings, Library::Lists, Library::Sets];
        let env = libraries.into_iter().fold(Env::builder(), |env, library| env.library(library));
        let env = env.variable("object", Type::Dyn).build();
        let checked = env.compile(text).map_err(|errors| bad_request(pointer, errors))?;
        if !matches!(checked.result_type(), Type::Bool | Type::Dyn) {
            return Err(bad_request(pointer, "must be true or false"));
        }
        let program = checked.program().map_err(|error| bad_request(pointer, error))?;
        Ok(Self { text: text.to_owned(), program: Arc::new(program) })
    }

    /// Whether the expression is true of an object. One that fails, for example at a member that is not there, is not.
    fn holds(&self, object: &Value) -> bool {
        let Ok(object) = Shape::Dyn.value(object) else { return false };
        let (result, _) = self.program.eval(&[("object", object)], limits::EXPRESSION_COST);
        matches!(result, Ok(Val::Bool(true)))
    }
}

impl Condition {
    /// Whether an object, or its absence, meets the condition.
    pub fn holds(&self, object: Option<&Value>) -> bool {
        match (self, object) {
            (Self::Deleted, object) => object.is_none(),
            (Self::Gone(uid), object) => {
                object.is_none_or(|object| object["metadata"]["uid"] != uid.as_str())
            }
            (_, None) => false,
            (Self::Matches(wanted), Some(object)) => includes(object, wanted, 64),
            (Self::Holds(expression), Some(object)) => expression.holds(object),
            (Self::Is(kind), Some(object)) => {
                let conditions = object["status"]["conditions"].as_array();
                conditions.is_some_and(|all| {
                    all.iter().any(|one| one["type"] == kind.as_str() && one["status"] == "True")
                })
            }
        }
    }
}

/// Whether a value has all members of `wanted`, to a depth. Lists must be equal in length, and their elements include the wanted ones.
fn includes(value: &Value, wanted: &Value, depth: usize) -> bool {
    match (value, wanted) {
        _ if depth == 0 => false,
        (Value::Object(value), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            value.get(name).map_or(wanted.is_null(), |value| includes(value, wanted, depth - 1))
        }),
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len()
                && value.iter().zip(wanted).all(|(value, wanted)| includes(value, wanted, depth - 1))
        }
        (value, wanted) => value == wanted,
    }
}

/// A client of the lab itself, whose requests are in no log.
pub fn client(running: &Running) -> Client {
    running.plane.client(UserInfo::new("kubernetes-admin", ["system:masters"]), AGENT)
}

/// Reads an object; `None` if it does not exist, or its kind is not served. Must run on the cluster's runtime.
///
/// # Errors
/// The API refuses.
pub async fn read(running: &Running, object: &ObjectName) -> Result<Option<Value>, Status> {
    let Some(gvr) = object.gvr(running) else { return Ok(None) };
    match client(running).dynamic(gvr).get(&object.namespace, &object.name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Waits until an object meets a condition. Must run on the cluster's runtime.
///
/// # Errors
/// 410: the cluster ended. The API refuses.
pub async fn wait(
    running: &Arc<Running>,
    object: &ObjectName,
    condition: &Condition,
) -> Result<Option<Value>, Status> {
    let store = running.store();
    loop {
        let seen = store.revision();
        let found = read(running, object).await?;
        if condition.holds(found.as_ref()) {
            return Ok(found);
        }
        let request = WatchRequest::new(KeyRange::prefix(ROOT)).from(seen.next());
        let mut writes = store.watch(request).map_err(|_| ended())?;
        if writes.next().await.is_none() {
            return Err(ended());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_named_by_resource_namespace_and_name() {
        let job = ObjectName::parse("jobs.batch/ns/a", "/object").unwrap();
        assert_eq!((&*job.plural, &*job.group, &*job.namespace, &*job.name), ("jobs", "batch", "ns", "a"));
        assert_eq!(ObjectName::parse("nodes/n", "/object").unwrap().namespace, "");
        for wrong in ["", "a", "a/", "/a", "a/b/c/d"] {
            assert_eq!(
                ObjectName::parse(wrong, "/object").map_err(|status| status.code),
                Err(400),
                "{wrong}"
            );
        }
    }

    #[test]
    fn conditions_hold_of_states_and_of_absence() {
        let object = json!({"spec": {"replicas": 3, "list": [{"a": 1, "b": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]}});
        let holds = |condition: Condition| condition.holds(Some(&object));
        assert!(holds(Condition::Matches(json!({"spec": {"replicas": 3}}))));
        assert!(holds(Condition::Matches(json!({"spec": {"list": [{"a": 1}], "none": null}}))));
        assert!(!holds(Condition::Matches(json!({"spec": {"list": []}}))));
        assert!(holds(Condition::Is("Ready".to_owned())) && !holds(Condition::Is("Old".to_owned())));
        let cel = |text: &str| Condition::Holds(Expression::compile(text, "/cel").unwrap());
        assert!(holds(cel("object.spec.replicas == 3 && object.spec.list.exists(one, one.a == 1)")));
        assert!(!holds(cel("object.spec.replicas > 3")) && !holds(cel("object.spec.missing == 1")));
        assert!(!cel("true").holds(None), "an object that does not exist");
        for (wrong, part) in
            [("object.", "/cel: ERROR"), ("'text'", "/cel: must be true or false"), ("other", "undeclared")]
        {
            let refused = Expression::compile(wrong, "/cel").unwrap_err();
            assert!(refused.code == 400 && refused.message.contains(part), "{wrong}: {}", refused.message);
        }
        assert_eq!(
            Expression::compile(&" ".repeat(limits::EXPRESSION_BYTES + 1), "/cel").unwrap_err().code,
            400
        );
        assert!(!holds(Condition::Deleted) && Condition::Deleted.holds(None));
        let (gone, next) = (Condition::Gone("1".to_owned()), json!({"metadata": {"uid": "2"}}));
        assert!(gone.holds(None) && gone.holds(Some(&next)));
        assert!(!gone.holds(Some(&json!({"metadata": {"uid": "1"}}))));
        assert!(!Condition::Matches(json!({})).holds(None));
    }
}
