//! Walks over objects of a custom kind: metadata, unknown fields, nulls, defaults and validation. Each is
//! linear in the object's size.

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

use super::tree::Tree;
use crate::schema::decode::FieldProblem;
pub use compare::OldItems;
pub use metadata::MetadataError;
pub(super) use report::{NO_FIELD, shown};
use serde_json::Value;
pub use validate::{ValidationScope, rules_blocked};

/// Origin of an object, which decides how malformed metadata is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request: malformed metadata is an error, and unknown members are reported.
    Request,
    /// The store: malformed members of metadata are dropped silently.
    Storage,
    /// A conversion webhook: malformed metadata is an error, and unknown members are dropped silently.
    Conversion,
    /// A server-side apply: as a request, but a null that the schema does not allow stays unless it has a default. Validation then
    /// refuses it, as in Kubernetes, whose server merges the configuration without the decoder that drops nulls.
    Apply,
}

impl Tree {
    /// Normalizes an object by this schema: decodes metadata, removes unknown fields and invalid nulls, and
    /// sets defaults. Objects from a conversion get no defaults, since they have those of their source
    /// version. Returns the removed members of requests, for strict field validation.
    ///
    /// # Errors
    /// Metadata of the object or an embedded object is malformed, and `origin` does not tolerate it. The
    /// object is then partly normalized and must not be used.
    pub fn read(&self, object: &mut Value, origin: Origin) -> Result<Vec<FieldProblem>, MetadataError> {
        let mut problems = self.decode_metadata(object, origin)?;
        let is_one_walk = matches!(origin, Origin::Request | Origin::Storage);
        if is_one_walk && !self.root().below.embedded {
            problems.extend(self.complete(object));
            return Ok(problems);
        }
        problems.extend(self.prune(object));
        if origin != Origin::Apply {
            self.drop_nulls(object);
        }
        problems.extend(self.decode_embedded(object, origin)?);
        if origin != Origin::Conversion {
            self.fill_defaults(object);
        }
        Ok(problems)
    }
}
