//! Installs the kinds of the API of simulations in a cluster, and applies the documents of a simulation.

use super::definitions;
use kstore_client::manifest::{Applier, ApplyError, ManifestObject};
use kstore_client::{ApiError, Client};
use kstore_nondet::Backoff;
use std::time::Duration;

/// Waits until the API server serves a kind that was just defined.
const SERVED: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1));
/// Tries until a kind that is not served is an error: about half a minute.
const SERVED_TRIES: u32 = 32;

/// Why the documents of a simulation could not be applied.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InstallError(#[from] ApplyError);

/// Applies the definitions of the kinds and then `objects`, by server-side apply: what they name wins, and what other clients set stays.
/// The client needs the rights of an administrator; its agent is the field manager.
///
/// # Errors
/// The API server refuses an object, or does not answer.
pub async fn install(client: &Client, objects: &[ManifestObject]) -> Result<(), InstallError> {
    let applier = Applier::new(client);
    for object in definitions().into_iter().chain(objects.iter().cloned()) {
        let mut tries = 0;
        loop {
            let outcome = applier.apply(object.clone()).await;
            match outcome {
                Ok(_) => break,
                Err(error) if is_passing(&error) && tries < SERVED_TRIES => {
                    tokio::time::sleep(SERVED.wait(tries)).await;
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether another try may succeed: the kind is not served yet, or the server does not answer.
fn is_passing(error: &ApplyError) -> bool {
    match error {
        ApplyError::UnknownKind { .. } => true,
        ApplyError::Refused { source, .. } => is_unserved(source),
        _ => false,
    }
}

fn is_unserved(error: &ApiError) -> bool {
    error.is_not_found() || matches!(error.code(), None | Some(429 | 500..))
}
