//! Waiting for a state of an object: by a watch, never by polling; a failure reports what was wanted, what is there and who wrote it.

use crate::Cluster;
use crate::limits::{WAIT, WAIT_REAL};
use crate::{subset, trace};
use futures::StreamExt as _;
use kstore_client::{Gvr, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, SourceError, Start};
use serde_json::Value;
use std::fmt;

/// A wait that failed. Its text has a diff of the wanted part, and the last writes with their causes.
pub struct WaitError(String);

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As [`fmt::Display`]: `unwrap` prints the report in lines.
impl fmt::Debug for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WaitError {}

/// The state of an object that a watch has shown last.
enum LastSeen {
    /// No state yet.
    Nothing,
    Object(Box<Value>),
    Deleted,
}

impl Cluster {
    /// Waits until an object contains `subset` (see [`crate::is_subset`]) and returns it. `(group, version, plural)` names the resource;
    /// the namespace is empty for resources without one. It waits for half an hour in virtual time, for a minute in real time.
    ///
    /// # Errors
    /// A report, if the object does not come to contain `subset` in time, or cannot be watched.
    pub async fn wait_for(
        &self,
        (group, version, plural): (&'static str, &'static str, &'static str),
        namespace: &str,
        name: &str,
        subset: &Value,
    ) -> Result<Value, WaitError> {
        let gvr = Gvr::new(group, version, plural);
        let mut last = LastSeen::Nothing;
        let limit = if self.has_virtual_time() { WAIT } else { WAIT_REAL };
        let waiting =
            self.watch_until(&gvr, (namespace, name), &mut last, |object| subset::is_subset(subset, object));
        let failure = match tokio::time::timeout(limit, waiting).await {
            Ok(Ok(object)) => return Ok(object),
            Ok(Err(error)) => error,
            Err(_) => format!("not within {limit:?} of the cluster's time"),
        };
        let found = match &last {
            LastSeen::Nothing => "the object does not exist\n".to_owned(),
            LastSeen::Deleted => "the object was deleted\n".to_owned(),
            LastSeen::Object(object) => subset::diff(subset, object),
        };
        let writes = trace::of(self.client(), &gvr, namespace, name).await;
        let namespaced = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        Err(WaitError(format!("waited for {plural} {namespaced}{name}: {failure}\n{found}writes:\n{writes}")))
    }

    async fn watch_until(
        &self,
        gvr: &Gvr,
        (namespace, name): (&str, &str),
        last: &mut LastSeen,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let source =
            self.client().dynamic(gvr.clone()).source(WatchParams::default().ns(namespace).name(name));
        loop {
            let frames = source.watch(Start::Initial(ReadAt::Latest)).await;
            let mut frames = frames.map_err(|error: SourceError| error.to_string())?;
            while let Some(batch) = frames.next().await {
                let batch = match batch {
                    Ok(batch) => batch,
                    // The next watch begins with the current state.
                    Err(SourceError::Expired) => break,
                    Err(error) => return Err(error.to_string()),
                };
                for frame in batch {
                    match frame {
                        Frame::Put(object) if holds(object.value()) => return Ok(object.value().clone()),
                        Frame::Put(object) => *last = LastSeen::Object(Box::new(object.value().clone())),
                        Frame::Gone { .. } => *last = LastSeen::Deleted,
                        Frame::Undecodable(_) | Frame::Progress { .. } => {}
                    }
                }
            }
        }
    }
}
