//! Validation of objects by their schema, with the messages of Kubernetes.

use super::report::{ErrorLocation, NO_FIELD};
use super::values::{Checker, Subject};
use super::{embedded, lists};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::node::NodeId;
use crate::structural::tree::{Schema, Tree};
use serde_json::Value;

/// Part of an object that a write can change; value checks apply to that part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationScope {
    /// The whole object.
    Whole,
    /// The status, for writes to `/status`. List uniqueness is still checked everywhere.
    Status,
}

impl Tree {
    /// Errors of an object by this schema, without CEL rules: values first, then metadata of embedded
    /// objects, then list uniqueness. Each is also a separate method, since a server has other checks in
    /// between.
    ///
    /// On an update, `old` is the stored object; each method documents which errors it drops then.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>, part: ValidationScope) -> ErrorList {
        let mut errors = self.validate_values(object, old, part);
        if part == ValidationScope::Whole {
            errors.extend(self.validate_embedded(object));
        }
        errors.extend(self.validate_lists(object, old));
        errors
    }

    /// Errors of types and value checks. On an update, errors of unchanged values are dropped; values are
    /// correlated by property, map key and keys of list items.
    #[must_use]
    pub fn validate_values(&self, object: &Value, old: Option<&Value>, part: ValidationScope) -> ErrorList {
        const STATUS: &str = "status";
        if part == ValidationScope::Whole {
            return self.check(self.root, object, old, "");
        }
        let (Some(schema), Some(status)) = (self.node(self.root).property(STATUS), object.get(STATUS)) else {
            return ErrorList::new();
        };
        self.check(schema, status, old.and_then(|old| old.get(STATUS)), STATUS)
    }

    /// Errors of apiVersion, kind and metadata in embedded objects.
    #[must_use]
    pub fn validate_embedded(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        embedded::check(object, self.root(), &Path::ROOT, &mut errors);
        errors
    }

    /// Duplicates in lists of type set and map. On an update, they are dropped if the old object has some
    /// already.
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
        checker.value(subject, &ErrorLocation { base, path: Path::ROOT });
        checker.into_report().into_list()
    }
}

impl Schema<'_> {
    /// Errors of types and value checks for a value at this position, such as a default. Fields of errors
    /// begin with `path`; their texts show the path from the value.
    #[must_use]
    pub fn validate(self, value: &Value, path: &Path<'_>) -> ErrorList {
        self.tree.check(self.id, value, None, &path.to_string())
    }
}

/// The error that replaces CEL rules after errors that would make them meaningless: required, type, length,
/// count and enum errors.
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
