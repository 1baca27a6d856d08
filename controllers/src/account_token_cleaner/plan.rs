//! The end of unused tokens in Secrets. Pure. Days are those of UTC, as in the labels.

use crate::account_token::ACCOUNT_UID;
use crate::action::{Action, PatchKind, Propagation, Target};
use crate::config::UnusedTokenPeriod;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::json;

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The moment one period ago.
fn horizon(period: UnusedTokenPeriod, now: Timestamp) -> Timestamp {
    now.checked_sub(period.get()).unwrap_or(Timestamp::MIN)
}

fn label<'s>(secret: &'s Secret, name: &str) -> Option<&'s str> {
    secret.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Whether the token of a Secret was generated for `account` and has not been used for the period. A token
/// counts as generated if its account lists it. Users create Secrets that no account lists; those stay.
pub(crate) fn is_unused(
    secret: &Secret,
    account: Option<&ServiceAccount>,
    period: UnusedTokenPeriod,
    now: Timestamp,
) -> bool {
    let horizon = horizon(period, now);
    let is_old = secret.metadata.creation_timestamp.as_ref().is_some_and(|created| created.0 < horizon);
    if !is_old || secret.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let is_idle = match label(secret, LAST_USED).map(str::parse::<Date>) {
        // It was not used since the API server records uses.
        None => true,
        Some(Ok(last)) => last < day(horizon),
        Some(Err(_)) => false,
    };
    is_idle && account.is_some_and(|account| is_generated_for(secret, account))
}

fn is_generated_for(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = secret.metadata.annotations.as_ref().and_then(|all| all.get(ACCOUNT_UID));
    let is_its_own =
        uid.is_none_or(|uid| uid.is_empty() || account.metadata.uid.as_deref() == Some(uid.as_str()));
    let listed = account.secrets.as_deref().unwrap_or_default();
    is_its_own && listed.iter().any(|reference| reference.name == secret.metadata.name)
}

/// Whether uses were recorded for at least the period: recording began on the day `since`, at its end at the
/// latest.
pub(crate) fn is_tracked(since: Date, period: UnusedTokenPeriod, now: Timestamp) -> bool {
    let begin = since.checked_add(1.day()).and_then(|next| next.to_zoned(TimeZone::UTC));
    begin.is_ok_and(|begin| begin.timestamp() <= horizon(period, now))
}

/// Marks an unused token as invalid, or deletes it if it has been invalid for the period. `None` if neither is
/// due.
pub(crate) fn plan(secret: &Secret, period: UnusedTokenPeriod, now: Timestamp) -> Option<Action> {
    let target = Target::of(secret);
    match label(secret, INVALID_SINCE).and_then(|day| day.parse::<Date>().ok()) {
        None => {
            let labels = json!({ INVALID_SINCE: day(now).to_string() });
            let patch = json!({ "metadata": { "uid": target.uid, "labels": labels } });
            Some(Action::Patch { target, status: false, kind: PatchKind::Merge, patch })
        }
        Some(since) if since < day(horizon(period, now)) => {
            // Precondition on the observed state: a token that was used meanwhile stays.
            Some(Action::Delete { target, propagation: Propagation::Default, force: false })
        }
        Some(_) => None,
    }
}
