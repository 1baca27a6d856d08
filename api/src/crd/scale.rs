//! Scale subresource of custom kinds: an `autoscaling/v1` Scale read from, and written to, paths of the
//! object.

use super::go;
use crate::field::{ErrorList, Path};
use crate::object::text;
use crate::status::Status;
use serde_json::{Value, json};

/// Replicas of a Scale for an object without replicas: below all values that validation accepts.
const UNSET: i64 = i32::MIN as i64;

/// Paths of the scale subresource, as members without the leading dot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalePaths {
    /// Value of `specReplicasPath`.
    pub spec_replicas: Vec<String>,
    /// Value of `statusReplicasPath`.
    pub status_replicas: Vec<String>,
    /// Value of `labelSelectorPath`; empty if there is none.
    pub label_selector: Vec<String>,
}

impl ScalePaths {
    /// Parses `subresources.scale`.
    pub(super) fn read(scale: &Value) -> Self {
        let steps = |member: &str| match text(&scale[member]) {
            "" => Vec::new(),
            path => path.strip_prefix('.').unwrap_or(path).split('.').map(str::to_owned).collect(),
        };
        Self {
            spec_replicas: steps("specReplicasPath"),
            status_replicas: steps("statusReplicasPath"),
            label_selector: steps("labelSelectorPath"),
        }
    }

    /// The Scale of an object for a GET.
    ///
    /// # Errors
    /// 500 if the spec has no replicas, or a value has the wrong type.
    pub fn of(&self, object: &Value) -> Result<Value, Status> {
        let scale = self.for_update(object)?;
        if scale["spec"]["replicas"] == UNSET {
            let path = joined(&self.spec_replicas);
            return Err(Status::internal(format!("the spec replicas field {path:?} does not exist")));
        }
        Ok(scale)
    }

    /// The Scale of an object as base of a PUT or PATCH. An object without replicas gets [`i32::MIN`], which
    /// [`ScalePaths::apply`] refuses.
    ///
    /// # Errors
    /// 500 if a value has the wrong type.
    pub fn for_update(&self, object: &Value) -> Result<Value, Status> {
        let metadata = &object["metadata"];
        let spec = integer(object, &self.spec_replicas).map_err(Status::unclassified)?;
        let status = integer(object, &self.status_replicas).map_err(Status::unclassified)?;
        let selector = self.selector(object).map_err(Status::unclassified)?;
        let mut scale = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {},
            "spec": {},
            "status": {"replicas": status.map_or(0, wrap)},
        });
        for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = metadata.get(member) {
                scale["metadata"][member] = value.clone();
            }
        }
        // The encoding of a Scale's spec omits zero.
        match spec.map_or(UNSET, wrap) {
            0 => {}
            replicas => scale["spec"]["replicas"] = json!(replicas),
        }
        if !selector.is_empty() {
            scale["status"]["selector"] = json!(selector);
        }
        Ok(scale)
    }

    /// Writes the replicas of a Scale into the object and changes nothing else. [`ScalePaths::check_spec`]
    /// later checks the number.
    ///
    /// # Errors
    /// 400 without replicas; 500 if a value on the way is not an object.
    pub fn apply(&self, scale: &Value, object: &mut Value) -> Result<(), Status> {
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas == UNSET {
            let path = joined(&self.spec_replicas);
            return Err(Status::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
        }
        set(object, &self.spec_replicas, json!(replicas)).map_err(Status::unclassified)
    }

    /// Errors of the replicas in an object's spec. Run at every write except status writes.
    #[must_use]
    pub fn check_spec(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        count(&mut errors, object, &self.spec_replicas);
        errors
    }

    /// Errors of the replicas and the selector in an object's status. Run at every write.
    #[must_use]
    pub fn check_status(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        count(&mut errors, object, &self.status_replicas);
        if let Err(fault) = self.selector(object) {
            errors.invalid(&Path::new(&joined(&self.label_selector)), "", fault);
        }
        errors
    }

    fn selector(&self, object: &Value) -> Result<String, String> {
        if self.label_selector.is_empty() {
            return Ok(String::new());
        }
        match go::nested(object, &self.label_selector)? {
            None => Ok(String::new()),
            Some(Value::String(own)) => Ok(own.clone()),
            Some(other) => Err(go::accessor_error(&self.label_selector, other, "string")),
        }
    }
}

fn joined(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// Wraps a number to 32 bits, the size of a Scale's field.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a Scale holds 32 bits; what has more was refused when it was written"
)]
fn wrap(replicas: i64) -> i64 {
    i64::from(replicas as i32)
}

fn integer(object: &Value, path: &[String]) -> Result<Option<i64>, String> {
    match go::nested(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(own) => Ok(Some(own)),
            None => Err(go::accessor_error(path, value, "int64")),
        },
    }
}

fn count(errors: &mut ErrorList, object: &Value, path: &[String]) {
    let at = joined(path);
    let at = Path::new(&at);
    match integer(object, path) {
        Err(fault) => errors.invalid(&at, &0, fault),
        Ok(Some(own)) if own < 0 => errors.invalid(&at, &own, "should be a non-negative integer"),
        Ok(Some(own)) if own > i64::from(i32::MAX) => {
            errors.invalid(&at, &own, format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(_) => {}
    }
}

/// Sets a member at a path, adding missing objects.
fn set(object: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut at = object;
    for (i, step) in way.iter().enumerate() {
        let Some(members) = at.as_object_mut() else { return Err(not_an_object(path, i)) };
        at = members.entry(step.as_str()).or_insert_with(|| json!({}));
    }
    let Some(members) = at.as_object_mut() else { return Err(not_an_object(path, way.len())) };
    members.insert(last.clone(), value);
    Ok(())
}

fn not_an_object(path: &[String], steps: usize) -> String {
    format!("value cannot be set because {} is not a map[string]interface{{}}", joined(&path[..steps]))
}
