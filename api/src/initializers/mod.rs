//! Initializers, the alpha feature of Kubernetes 1.7 to 1.13: an object is hidden from lists and watches until
//! the programs in `metadata.initializers.pending` have changed it. [`Initializers`] is that member of the
//! metadata; `definition` declares the kind that says which objects wait. The field table does not have the
//! member: only servers with the admission plugin `Initializers` keep it.

mod definition;
#[cfg(test)]
mod tests;

use crate::check::fully_qualified;
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::{list, text};
use crate::status::{Outcome, Status};
pub use definition::{GROUP, PLURAL, VERSION, definition};
use serde_json::{Value, json};

const MEMBER: &str = "initializers";
const PENDING: &str = "pending";
const RESULT: &str = "result";

/// The member `metadata.initializers` of an object that is not initialized.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Initializers {
    /// Names of the initializers that have not changed the object yet, in their order.
    pub pending: Vec<String>,
    /// Why initialization has failed; the object is then deleted.
    pub result: Option<Status>,
}

/// Whether an object waits for initializers, or its initialization has failed.
#[must_use]
pub fn is_uninitialized(object: &Value) -> bool {
    !object["metadata"][MEMBER].is_null()
}

/// Removes and returns the member as it is, before the object is decoded by the field table.
pub fn take(object: &mut Value) -> Option<Value> {
    take_from(object.get_mut("metadata")?)
}

/// Removes and returns the member of an object's metadata.
pub(crate) fn take_from(metadata: &mut Value) -> Option<Value> {
    metadata.as_object_mut()?.remove(MEMBER).filter(|value| !value.is_null())
}

/// Puts back what [`take`] returned.
pub fn put(object: &mut Value, taken: Option<Value>) {
    if let Some(value) = taken {
        meta::metadata_mut(object).insert(MEMBER.to_owned(), value);
    }
}

/// Gives `new` the member of `old`, or removes it.
pub fn carry(new: &mut Value, old: &Value) {
    take(new);
    let member = &old["metadata"][MEMBER];
    put(new, Some(member).filter(|value| !value.is_null()).cloned());
}

impl Initializers {
    /// Decodes the member; `None` for an object without it.
    ///
    /// # Errors
    /// The member that has another form.
    pub fn of(object: &Value) -> Result<Option<Self>, String> {
        let member = &object["metadata"][MEMBER];
        if member.is_null() {
            return Ok(None);
        }
        let wrong = |path: &str, expected: &str| Err(format!("metadata.{MEMBER}{path} must be {expected}"));
        let Some(members) = member.as_object() else { return wrong("", "an object") };
        let pending = match members.get(PENDING).unwrap_or(&Value::Null) {
            Value::Null => Vec::new(),
            Value::Array(items) => {
                let name = |item: &Value| match item.as_object() {
                    Some(item) if item.len() == 1 => item.get("name")?.as_str().map(str::to_owned),
                    _ => None,
                };
                match items.iter().map(name).collect() {
                    Some(names) => names,
                    None => return wrong(".pending", "a list of objects with a name"),
                }
            }
            _ => return wrong(".pending", "a list of objects with a name"),
        };
        let result = match members.get(RESULT).unwrap_or(&Value::Null) {
            Value::Null => None,
            result => match serde_json::from_value(result.clone()) {
                // A list of members would be accepted, too.
                Ok(status) if result.is_object() => Some(status),
                _ => return wrong(".result", "a Status"),
            },
        };
        Ok(Some(Self { pending, result }))
    }

    /// Initializers that wait for these names.
    #[must_use]
    pub fn waiting_for(pending: Vec<String>) -> Self {
        Self { pending, result: None }
    }

    /// Whether nothing is pending and nothing has failed: such an object counts as initialized.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.result.is_none()
    }

    /// Sets the member, or removes it if it is empty.
    pub fn write(&self, object: &mut Value) {
        if self.is_empty() {
            take(object);
            return;
        }
        let mut member = json!({});
        if !self.pending.is_empty() {
            member[PENDING] = self.pending.iter().map(|name| json!({ "name": name })).collect();
        }
        if let Some(result) = &self.result {
            member[RESULT] = serde_json::to_value(result).expect("a Status is plain data");
        }
        put(object, Some(member));
    }

    /// Checks the initializers that a client gives a new object.
    #[must_use]
    pub fn validate(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        self.check_names(&mut errors);
        self.check_result(&mut errors);
        errors
    }

    /// Checks a change of the initializers: they may only be removed, and a failure is final. Kubernetes leaves
    /// it to the initializers to remove only the first pending one.
    #[must_use]
    pub fn validate_update(new: Option<&Self>, old: Option<&Self>) -> ErrorList {
        let mut errors = ErrorList::new();
        let metadata = Path::new("metadata");
        let path = metadata.child(MEMBER);
        match (old, new) {
            (None, Some(_)) => {
                let text = "field is immutable once initialization has completed";
                errors.invalid(&path, "null", text);
            }
            (Some(old), Some(new)) if old.result.is_some() && new.result != old.result => {
                errors.invalid(&path.child(RESULT), &new.result, "field is immutable");
            }
            (Some(_), Some(new)) => {
                new.check_names(&mut errors);
                new.check_result(&mut errors);
            }
            (_, None) => {}
        }
        errors
    }

    fn check_names(&self, errors: &mut ErrorList) {
        let metadata = Path::new("metadata");
        let path = metadata.child(MEMBER);
        let pending = path.child(PENDING);
        for (at, name) in self.pending.iter().enumerate() {
            fully_qualified(errors, &pending.index(at).child("name"), name);
        }
    }

    fn check_result(&self, errors: &mut ErrorList) {
        let metadata = Path::new("metadata");
        let path = metadata.child(MEMBER);
        if self.result.as_ref().is_some_and(|result| result.status != Outcome::Failure) {
            errors.invalid(&path.child(RESULT).child("status"), "Success", "must be 'Failure'");
        }
    }
}

/// The names of the initializers that a new object of this resource waits for. `configurations` are the stored
/// InitializerConfigurations in the order of their names.
#[must_use]
pub fn names_for<'c>(
    configurations: impl IntoIterator<Item = &'c Value>,
    (group, version, plural): (&str, &str, &str),
) -> Vec<String> {
    let initialized = configurations.into_iter().filter(|configuration| !is_uninitialized(configuration));
    let initializers = initialized.flat_map(|configuration| list(&configuration["initializers"]));
    let concerns = |rule: &Value| {
        includes(&rule["apiGroups"], group)
            && includes(&rule["apiVersions"], version)
            && includes(&rule["resources"], plural)
    };
    let matching = initializers.filter(|initializer| list(&initializer["rules"]).iter().any(concerns));
    matching.map(|initializer| text(&initializer["name"]).to_owned()).collect()
}

/// Whether a list of a rule names `own`, or everything.
fn includes(names: &Value, own: &str) -> bool {
    list(names).iter().any(|name| name == "*" || name == own)
}
