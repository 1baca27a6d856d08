//! Whether a definition may be stored. Paths are those of Kubernetes' internal type: what is equal in all versions is reported at the
//! top, so a definition of one version has `spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns` and
//! `spec.selectableFields`. Metadata as such is checked by `crate::validate`.

use serde_json::Value;

use super::rules::RuleCompiler;
use crate::field::ErrorList;

/// Everything wrong with a new definition, after defaults and `strategy::prepare_create`.
#[must_use]
pub fn create(crd: &Value, rules: &dyn RuleCompiler) -> ErrorList {
    let _ = (crd, rules);
    todo!()
}

/// Everything wrong with a definition as the successor of a stored one.
#[must_use]
pub fn update(new: &Value, old: &Value, rules: &dyn RuleCompiler) -> ErrorList {
    let _ = (new, old, rules);
    todo!()
}

/// Everything wrong with a successor written through `/status`.
#[must_use]
pub fn update_status(new: &Value, old: &Value) -> ErrorList {
    let _ = (new, old);
    todo!()
}
