//! The ServiceAccount `default` that every namespace needs. Pure.

use crate::action::Action;
use crate::namespace::is_active;
use crate::object::Object;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Account of pods that name none.
pub(crate) const DEFAULT: &str = "default";

/// Creates the account, if the namespace needs one.
pub(crate) fn plan(namespace: &Namespace, has_account: bool) -> Option<Action> {
    if has_account || !is_active(namespace) {
        return None;
    }
    let metadata = ObjectMeta {
        name: Some(DEFAULT.into()),
        namespace: namespace.metadata.name.clone(),
        ..ObjectMeta::default()
    };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    Some(Action::Create(Object::of(&account)))
}
