//! Waits for a state of one object by watching it.

use futures::StreamExt as _;
use kstore_client::{DynamicApi, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, SourceError, Start};
use serde_json::Value;

/// Watches the objects of `which`, which is usually one, until `decide` returns something about a state of it. A
/// deleted object may be created again, so its end decides nothing.
///
/// # Errors
/// The object cannot be watched.
pub(crate) async fn watch_until<T>(
    objects: &DynamicApi,
    which: WatchParams,
    mut decide: impl FnMut(&Value) -> Option<T>,
) -> Result<T, SourceError> {
    let source = objects.source(which);
    loop {
        let mut frames = source.watch(Start::Initial(ReadAt::Latest)).await?;
        while let Some(batch) = frames.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(SourceError::Expired) => break,
                Err(error) => return Err(error),
            };
            for frame in batch {
                if let Frame::Put(object) = frame
                    && let Some(decided) = decide(object.value())
                {
                    return Ok(decided);
                }
            }
        }
    }
}
