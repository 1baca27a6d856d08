//! Compilation of CEL expressions in webhooks and policies, so that only valid expressions are stored.
//!
//! Follows `validateMatchConditions`.

use crate::admission_expression::{CompileFailure, Environment, ResultType};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};

/// Compiles an expression of a given result type and reports why it fails. Skips the expression if the error
/// list is full.
pub(super) fn compile(
    errors: &mut ErrorList,
    path: &Path<'_>,
    environment: &Environment,
    expression: &str,
    result: ResultType,
) {
    if errors.is_full() {
        return;
    }
    if let Err(failure) = environment.compile(expression, result) {
        refuse(errors, path, expression, &failure);
    }
}

/// Reports why an expression cannot be compiled.
pub(super) fn refuse(errors: &mut ErrorList, path: &Path<'_>, expression: &str, failure: &CompileFailure) {
    match failure {
        CompileFailure::Invalid(why) => errors.invalid(path, expression, why),
        CompileFailure::Internal(why) => errors.push(FieldError {
            kind: FieldErrorKind::Internal,
            field: path.to_string(),
            value: None,
            detail: why.clone(),
        }),
    }
}
