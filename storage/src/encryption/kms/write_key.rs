//! [`WriteKey`]: the seed that new values are encrypted with, and when it is replaced. Pure.
//!
//! The service is asked for its status at intervals. If the status is right and names the key that encrypted
//! the seed, the seed may be used for [`WRITE_TIME`] more; if it names another key, a new seed is encrypted
//! with that. Otherwise the seed stays in use until its time is over: writes then fail, so that an operator
//! who rotated a key knows when the old one is no longer used. Reading is not bound to this time.

use super::super::key::Key;
use super::envelope::{SealedSeed, shown_key_id, validate_key_id};
use kstore_proto::kms::v2::{EncryptResponse, EncryptedDekSourceType, StatusResponse};
use std::time::Duration;
use tokio::time::Instant;

/// How long a seed may be used after the last successful check; kube-apiserver's time.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(180);

/// The seed of new values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteKey {
    pub(super) seed: Key,
    pub(super) sealed: SealedSeed,
    /// When values may no longer be encrypted with it.
    pub(super) expires: Instant,
}

/// What a status asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusStep {
    /// The seed stays, with a new expiry.
    Extend,
    /// A new seed is to be encrypted.
    Replace,
}

/// Judges a status by the seed in use. `version` is the interface's version in the first right status.
///
/// # Errors
/// Everything that is wrong. A wrong health or version still lets the key be replaced, as in kube-apiserver;
/// without a valid name of a key there is no step.
pub(super) fn judge_status(
    status: &StatusResponse,
    version: &mut String,
    current: Option<&WriteKey>,
) -> (Option<StatusStep>, Vec<String>) {
    let mut errors = Vec::new();
    if status.healthz != "ok" {
        errors.push(format!("got unexpected healthz status: {}", status.healthz));
    }
    let found = &status.version;
    if found != "v2" && found != "v2beta1" {
        errors.push(format!("expected KMSv2 API version v2, got {found}"));
    } else if version.is_empty() {
        version.clone_from(found);
    } else if version != found {
        errors.push(format!(
            "KMSv2 API version should not change after the initial status response version {version}, got {found}"
        ));
    }
    if let Err(reason) = validate_key_id(&status.key_id) {
        errors.push(format!("got invalid KMSv2 KeyID hash {:?}: {reason}", shown_key_id(&status.key_id)));
        return (None, errors);
    }
    let is_same = current.is_some_and(|current| current.sealed.key_id == status.key_id);
    (Some(if is_same { StatusStep::Extend } else { StatusStep::Replace }), errors)
}

/// The seed that an answer to Encrypt makes usable.
///
/// # Errors
/// The answer breaks a bound, or another key than the status named encrypted the seed.
pub(super) fn accept(
    seed: Key,
    answer: EncryptResponse,
    status_key_id: &str,
    expires: Instant,
) -> Result<WriteKey, String> {
    let sealed = SealedSeed {
        key_id: answer.key_id,
        source: answer.ciphertext,
        annotations: answer.annotations,
        kind: EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed,
    };
    sealed.validate()?;
    if sealed.key_id != status_key_id {
        return Err(format!(
            "statusKeyIDHash={:?}, encryptKeyIDHash={:?}",
            shown_key_id(status_key_id),
            shown_key_id(&sealed.key_id)
        ));
    }
    Ok(WriteKey { seed, sealed, expires })
}
