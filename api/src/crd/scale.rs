//! The scale subresource of custom kinds: `autoscaling/v1` Scale made from, and written to, paths of the object.

use serde_json::Value;

use super::definition::Definition;
use crate::status::Status;

/// Paths of the scale subresource, as steps without the leading dot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec_replicas: Vec<String>,
    /// `statusReplicasPath`.
    pub status_replicas: Vec<String>,
    /// `labelSelectorPath`; empty if there is none.
    pub label_selector: Vec<String>,
}

impl ScalePaths {
    /// The Scale of an object.
    ///
    /// # Errors
    /// 500 if the object has no replicas in its spec.
    pub fn of(&self, object: &Value) -> Result<Value, Status> {
        let _ = object;
        todo!()
    }

    /// Writes the replicas of a Scale into the object; nothing else of it changes.
    ///
    /// # Errors
    /// 400 without replicas, 422 if they are no count.
    pub fn apply(&self, definition: &Definition, scale: &Value, object: &mut Value) -> Result<(), Status> {
        let _ = (definition, scale, object);
        todo!()
    }
}
