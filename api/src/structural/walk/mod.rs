//! The walks over objects of a custom kind: metadata, unknown fields, nulls, defaults and checks. Each is linear in the object.

mod compare;
mod default;
mod embedded;
mod lists;
mod metadata;
mod number;
mod prune;
mod report;
mod validate;
mod value_type;
mod values;

use serde_json::Value;

pub use compare::OldItems;
pub use metadata::MetadataError;
pub(super) use report::{NO_FIELD, shown};
pub use validate::{Part, rules_blocked};

use super::tree::Tree;
use crate::schema::decode::FieldProblem;

/// Where an object comes from, which decides what malformed metadata does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request: malformed metadata is an error, unknown members of it are reported.
    Request,
    /// The store: malformed parts of metadata are dropped silently.
    Storage,
    /// A conversion webhook: malformed metadata is an error, unknown members of it are dropped.
    Conversion,
}

impl Tree {
    /// Brings an object into the form of this schema: metadata decoded, unknown fields and illegal nulls removed, defaults filled.
    /// Objects from a conversion get no defaults: they got those of the version they came from. Returns the removed members of
    /// requests, for strict field validation.
    ///
    /// # Errors
    /// Metadata of the object or of an embedded object is malformed, and `origin` does not let it pass. The object is then
    /// half-done and must not be used.
    pub fn read(&self, object: &mut Value, origin: Origin) -> Result<Vec<FieldProblem>, MetadataError> {
        let mut problems = self.decode_metadata(object, origin)?;
        if origin != Origin::Conversion && !self.root().below.embedded {
            problems.extend(self.complete(object));
            return Ok(problems);
        }
        problems.extend(self.prune(object));
        self.drop_nulls(object);
        problems.extend(self.decode_embedded(object, origin)?);
        if origin != Origin::Conversion {
            self.fill_defaults(object);
        }
        Ok(problems)
    }
}
