//! Carries out what the claim rule says. The one read that bypasses the caches: before anything is adopted, the server must
//! say that the owner still lives.

use crate::action::Action;
use crate::apply::Hands;
use crate::claim::{Claim, Claimable, adopt, controller_ref, release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_client::{ApiError, Kind};
use kstore_informer::Context;

/// Adopts and releases for `owner`. True if something was written: the caller's view of its objects is out of date then, and
/// it runs again when the writes are seen.
pub(crate) async fn settle<K: Kind, T: Claimable>(
    hands: &Hands,
    cx: &Context,
    owner: &ObjectMeta,
    claim: &Claim<T>,
) -> Result<bool, ApiError> {
    let uid = owner.uid.as_deref().unwrap_or_default();
    let mut actions: Vec<Action> = claim.release.iter().map(|object| release(object, uid)).collect();
    if !claim.adopt.is_empty() && lives::<K>(hands, owner).await? {
        let reference = controller_ref(K::API_VERSION, K::KIND, owner);
        actions.extend(claim.adopt.iter().map(|object| adopt(object, &reference)));
    }
    let is_work = !actions.is_empty();
    if is_work {
        hands.carry_out(cx, &[Action::Together(actions)]).await.result()?;
    }
    Ok(is_work)
}

/// Whether the server says that the owner still is there, and not being deleted.
pub(crate) async fn lives<K: Kind>(hands: &Hands, owner: &ObjectMeta) -> Result<bool, ApiError> {
    let ns = owner.namespace.as_deref().unwrap_or_default();
    let name = owner.name.as_deref().unwrap_or_default();
    match hands.client.api::<K>().get(ns, name).await {
        Ok(fresh) => Ok(fresh.metadata().uid == owner.uid && fresh.metadata().deletion_timestamp.is_none()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
