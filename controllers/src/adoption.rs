//! Executes the adoptions and releases of the claim rule. Adoption requires an uncached read: the server must
//! confirm that the owner still exists.

use crate::action::Action;
use crate::apply::Executor;
use crate::claim::{Claim, ControlledObject, adopt, controller_ref, release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_client::{ApiError, Kind};
use kstore_informer::Context;

/// Adopts and releases objects for `owner`. Returns whether it wrote: the caller's view is then outdated, and
/// the key runs again when the caches show the writes.
pub(crate) async fn settle<K: Kind, T: ControlledObject>(
    executor: &Executor,
    cx: &Context,
    owner: &ObjectMeta,
    claim: &Claim<T>,
) -> Result<bool, ApiError> {
    let uid = owner.uid.as_deref().unwrap_or_default();
    let mut actions: Vec<Action> = claim.release.iter().map(|object| release(object, uid)).collect();
    if !claim.adopt.is_empty() && lives::<K>(executor, owner).await? {
        let reference = controller_ref(K::API_VERSION, K::KIND, owner);
        actions.extend(claim.adopt.iter().map(|object| adopt(object, &reference)));
    }
    let is_work = !actions.is_empty();
    if is_work {
        executor.execute(cx, &[Action::Together(actions)]).await.result()?;
    }
    Ok(is_work)
}

/// Whether the server has the owner with this uid and it is not being deleted.
pub(crate) async fn lives<K: Kind>(executor: &Executor, owner: &ObjectMeta) -> Result<bool, ApiError> {
    let ns = owner.namespace.as_deref().unwrap_or_default();
    let name = owner.name.as_deref().unwrap_or_default();
    match executor.client.api::<K>().get(ns, name).await {
        Ok(fresh) => Ok(fresh.metadata().uid == owner.uid && fresh.metadata().deletion_timestamp.is_none()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
