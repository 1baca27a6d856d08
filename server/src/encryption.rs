//! Opens encryption at rest: reads the configuration, and starts the task that follows its changes.

use crate::args::ApiHere;
use kstore_cluster::Phase;
use kstore_nondet::Nondet;
use kstore_storage::encryption::Encryption;
use std::sync::Arc;

/// Prefix of the keys in the embedded store.
const EMBEDDED_ROOT: &str = "/registry";

/// Opens the encryption of the API's objects, if a file configures it. Its task ends when `core` ends.
pub(crate) async fn open(
    api: &ApiHere,
    core: &Phase,
    nondet: &Nondet,
) -> anyhow::Result<Option<Arc<Encryption>>> {
    let Some(file) = &api.encryption else { return Ok(None) };
    let root = api.storage.external().map_or(EMBEDDED_ROOT, |etcd| &etcd.prefix);
    let encryption = Arc::new(Encryption::open(&file.path, root, nondet.rng.fork("encryption"))?);
    encryption.begin().await;
    if file.reloads {
        let (encryption, path, stop) = (encryption.clone(), file.path.clone(), core.stop());
        core.spawn("encryption-configuration", async move {
            stop.run_until_cancelled(encryption.reload_changes(path)).await;
        });
    }
    Ok(Some(encryption))
}
