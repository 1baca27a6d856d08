//! What is wrong with an object by its schema, in the words of Kubernetes.

use serde_json::Value;

use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::tree::{Schema, Tree};

/// The field of errors that have no path.
pub(super) const NO_FIELD: &str = "<nil>";

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
    /// lists with a type.
    ///
    /// On an update, `old` is the object before. Errors at places whose value did not change are then dropped, as are all errors of
    /// lists if the old object had some.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>, part: Part) -> ErrorList {
        let mut errors = self.validate_values(object, old, part);
        errors.extend(self.validate_embedded(object));
        errors.extend(self.validate_lists(object, old));
        errors
    }

    /// The first part of [`Self::validate`].
    #[must_use]
    pub fn validate_values(&self, object: &Value, old: Option<&Value>, part: Part) -> ErrorList {
        let _ = (object, old, part);
        ErrorList::new()
    }

    /// The second part of [`Self::validate`].
    #[must_use]
    pub fn validate_embedded(&self, object: &Value) -> ErrorList {
        let _ = object;
        ErrorList::new()
    }

    /// The third part of [`Self::validate`].
    #[must_use]
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>) -> ErrorList {
        let _ = (object, old);
        ErrorList::new()
    }
}

impl Schema<'_> {
    /// The errors of a value at this place, such as a default, by type and checks. Without lists with a type.
    #[must_use]
    pub fn validate(self, value: &Value, path: &Path<'_>) -> ErrorList {
        let _ = (value, path);
        ErrorList::new()
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
