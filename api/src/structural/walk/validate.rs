//! What is wrong with an object by its schema, in the words of Kubernetes.

use serde_json::Value;

use super::report::{NO_FIELD, Place};
use super::values::{Checker, Subject};
use super::{embedded, lists};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::node::NodeId;
use crate::structural::tree::{Schema, Tree};

/// Which part of an object a write may change, and so which part the checks of values apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The status, of writes to `/status`. Uniqueness in lists is checked everywhere all the same.
    Status,
}

impl Tree {
    /// Everything that is wrong with an object by this schema, expressions aside: values, then the metadata of embedded objects, then
    /// uniqueness in lists. Each part is also a method of its own, since a server has other checks between them.
    ///
    /// On an update, `old` is the object before: see the parts for what that spares.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>, part: Part) -> ErrorList {
        let mut errors = self.validate_values(object, old, part);
        if part == Part::Whole {
            errors.extend(self.validate_embedded(object));
        }
        errors.extend(self.validate_lists(object, old));
        errors
    }

    /// What is wrong with the values of an object: types and value checks. On an update, errors within a value that did not change are
    /// dropped; values are matched by property, by key of a map and by keys of a list item.
    #[must_use]
    pub fn validate_values(&self, object: &Value, old: Option<&Value>, part: Part) -> ErrorList {
        const STATUS: &str = "status";
        if part == Part::Whole {
            return self.check(self.root, object, old, "");
        }
        let (Some(schema), Some(status)) = (self.node(self.root).property(STATUS), object.get(STATUS)) else {
            return ErrorList::new();
        };
        self.check(schema, status, old.and_then(|old| old.get(STATUS)), STATUS)
    }

    /// What is wrong with the apiVersion, kind and metadata of the objects embedded in an object.
    #[must_use]
    pub fn validate_embedded(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        embedded::check(object, self.root(), &Path::ROOT, &mut errors);
        errors
    }

    /// Duplicates in lists of type set and map. On an update there are none if the old object had some already.
    #[must_use]
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>) -> ErrorList {
        let find = |object: &Value| {
            let mut errors = ErrorList::new();
            lists::check(object, self.root(), &Path::ROOT, &mut errors);
            errors
        };
        let errors = find(object);
        let had_errors = !errors.is_empty() && old.is_some_and(|old| !find(old).is_empty());
        if had_errors { ErrorList::new() } else { errors }
    }

    fn check(&self, schema: NodeId, value: &Value, old: Option<&Value>, base: &str) -> ErrorList {
        let mut checker = Checker::new(self);
        let subject = Subject { schema, structure: Some(schema), value, old };
        checker.value(subject, &Place { base, path: Path::ROOT });
        checker.into_report().into_list()
    }
}

impl Schema<'_> {
    /// What is wrong with a value at this place, such as a default, by type and value checks. Fields of the errors begin with `path`;
    /// their texts show the path from the value, as they do for the status of an object.
    #[must_use]
    pub fn validate(self, value: &Value, path: &Path<'_>) -> ErrorList {
        self.tree.check(self.id, value, None, &path.to_string())
    }
}

/// The error that stands for the expressions of a schema if errors found before make them meaningless: required, type, length, count
/// and enum errors.
#[must_use]
pub fn rules_blocked(errors: &ErrorList) -> Option<FieldError> {
    const TEXT: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let is_blocking = |error: &FieldError| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    errors.iter().any(is_blocking).then(|| FieldError {
        kind: FieldErrorKind::Invalid,
        field: NO_FIELD.to_owned(),
        value: Some("null".to_owned()),
        detail: TEXT.to_owned(),
    })
}
