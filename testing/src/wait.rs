//! Waiting for a state of an object: by a watch, never by polling; a failure reports what was wanted, what is there and who wrote it.

use crate::Cluster;
use crate::limits::{WAIT, WAIT_REAL};
use crate::{causes, subset, trace};
use futures::StreamExt as _;
use kstore_client::{Gvr, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, SourceError, Start};
use kstore_store::{KeyRange, WatchRequest};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

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

/// What an object is to become.
enum Wanted<'w> {
    Subset(&'w Value),
    Gone,
}

/// `(group, version, plural)` of a resource.
pub type ResourceName = (&'static str, &'static str, &'static str);

impl Cluster {
    /// Waits until an object contains `subset` (see [`crate::is_subset`]) and returns it. `(group, version, plural)` names the resource;
    /// the namespace is empty for resources without one. It waits for half an hour in virtual time, for a minute in real time.
    ///
    /// # Errors
    /// A report, if the object does not come to contain `subset` in time, or cannot be watched.
    pub async fn wait_for(
        &self,
        resource: ResourceName,
        namespace: &str,
        name: &str,
        subset: &Value,
    ) -> Result<Value, WaitError> {
        self.wait_for_within(self.wait_limit(), resource, namespace, name, subset).await
    }

    /// As [`Self::wait_for`], for a time of the cluster's clock.
    ///
    /// # Errors
    /// As [`Self::wait_for`].
    pub async fn wait_for_within(
        &self,
        limit: Duration,
        resource: ResourceName,
        namespace: &str,
        name: &str,
        subset: &Value,
    ) -> Result<Value, WaitError> {
        self.wait(limit, resource, (namespace, name), Wanted::Subset(subset)).await
    }

    /// Waits until an object does not exist, for a time of the cluster's clock.
    ///
    /// # Errors
    /// A report, if the object is still there, or cannot be watched.
    pub async fn wait_until_gone_within(
        &self,
        limit: Duration,
        resource: ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<(), WaitError> {
        self.wait(limit, resource, (namespace, name), Wanted::Gone).await.map(drop)
    }

    /// Calls `check` now and after writes to the cluster until it returns `Ok`. What it asks for must follow from the cluster's objects,
    /// since nothing else makes it run again; writes that come while it runs are not missed.
    ///
    /// # Errors
    /// A report with the last error of `check`, if it did not return `Ok` within `limit` of the cluster's clock.
    pub async fn check_within<T, E: fmt::Display>(
        &self,
        limit: Duration,
        mut check: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, WaitError> {
        let mut failure = "the check did not end".to_owned();
        let checking = async {
            loop {
                let mut writes = self.writes_from_now()?;
                match check().await {
                    Ok(value) => return Ok(value),
                    Err(error) => failure = error.to_string(),
                }
                if writes.next().await.is_none() {
                    return Err("the cluster has ended".to_owned());
                }
            }
        };
        match tokio::time::timeout(limit, checking).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(WaitError(format!("{error}; the check said: {failure}"))),
            Err(_) => Err(WaitError(format!("not within {limit:?} of the cluster's time: {failure}"))),
        }
    }

    /// The time for which waits go on if none is stated.
    #[doc(hidden)]
    pub fn wait_limit(&self) -> Duration {
        if self.has_virtual_time() { WAIT } else { WAIT_REAL }
    }

    fn writes_from_now(&self) -> Result<kstore_store::Watcher, String> {
        let store = &self.parts.store;
        let request = WatchRequest::new(KeyRange::all()).from(store.revision().next());
        store.watch(request).map_err(|error| error.to_string())
    }

    async fn wait(
        &self,
        limit: Duration,
        (group, version, plural): ResourceName,
        (namespace, name): (&str, &str),
        wanted: Wanted<'_>,
    ) -> Result<Value, WaitError> {
        let gvr = Gvr::new(group, version, plural);
        let mut last = LastSeen::Nothing;
        let holds = |seen: &LastSeen| match (&wanted, seen) {
            (Wanted::Subset(subset), LastSeen::Object(object)) => subset::is_subset(subset, object),
            (Wanted::Gone, LastSeen::Deleted | LastSeen::Nothing) => true,
            (Wanted::Subset(_), _) | (Wanted::Gone, LastSeen::Object(_)) => false,
        };
        let waiting = self.watch_until(&gvr, (namespace, name), &mut last, holds);
        let failure = match tokio::time::timeout(limit, waiting).await {
            Ok(Ok(())) => {
                return Ok(match last {
                    LastSeen::Object(object) => *object,
                    LastSeen::Nothing | LastSeen::Deleted => Value::Null,
                });
            }
            Ok(Err(error)) => error,
            Err(_) => format!("not within {limit:?} of the cluster's time"),
        };
        let found = match (&last, &wanted) {
            (LastSeen::Nothing, _) => "the object does not exist\n".to_owned(),
            (LastSeen::Deleted, _) => "the object was deleted\n".to_owned(),
            (LastSeen::Object(object), Wanted::Subset(subset)) => subset::diff(subset, object),
            (LastSeen::Object(object), Wanted::Gone) => {
                format!("the object still exists; its metadata: {}\n", object["metadata"])
            }
        };
        let writes = self.writes_of(&gvr, namespace, name).await;
        let object = causes::name_of(plural, namespace, name).replacen('/', " ", 1);
        Err(WaitError(format!("waited for {object}: {failure}\n{found}{writes}")))
    }

    /// The writes to an object, with what followed and what led there, as text.
    async fn writes_of(&self, gvr: &Gvr, namespace: &str, name: &str) -> String {
        match trace::of(self.client(), gvr, namespace, name).await {
            Err(error) => format!("its writes are not known: {error}\n"),
            Ok(trace) => {
                let object = causes::name_of(&gvr.resource, namespace, name);
                let causes = causes::of_last_writes(&self.parts.store, &trace, &object).await;
                let writes = trace::render(&trace);
                format!("writes and what followed:\n{writes}last writes and what led there:\n{causes}")
            }
        }
    }

    async fn watch_until(
        &self,
        gvr: &Gvr,
        (namespace, name): (&str, &str),
        last: &mut LastSeen,
        holds: impl Fn(&LastSeen) -> bool,
    ) -> Result<(), String> {
        let source =
            self.client().dynamic(gvr.clone()).source(WatchParams::default().ns(namespace).name(name));
        loop {
            // A new watch begins with the current state, in which a deleted object does not occur.
            *last = LastSeen::Nothing;
            let frames = source.watch(Start::Initial(ReadAt::Latest)).await;
            let mut frames = frames.map_err(|error: SourceError| error.to_string())?;
            while let Some(batch) = frames.next().await {
                let batch = match batch {
                    Ok(batch) => batch,
                    Err(SourceError::Expired) => break,
                    Err(error) => return Err(error.to_string()),
                };
                let mut is_current = false;
                for frame in batch {
                    match frame {
                        Frame::Put(object) => *last = LastSeen::Object(Box::new(object.value().clone())),
                        Frame::Gone { .. } => *last = LastSeen::Deleted,
                        // The end of the current state: an object that has not been shown does not exist.
                        Frame::Progress { .. } => is_current = true,
                        Frame::Undecodable(_) => {}
                    }
                    let is_known = is_current || !matches!(last, LastSeen::Nothing);
                    if is_known && holds(last) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Waits for a state of a cluster and returns it; panics with a report if it does not come. The report has the difference between what was
/// wanted and what is there, the writes to the object with what followed from them, and the causes of the last ones.
///
/// It waits by watches, for half an hour in virtual time or a minute in real time, or as long as `within` says:
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// use kstore_testing::{Cluster, eventually};
/// use std::time::Duration;
///
/// const PODS: (&str, &str, &str) = ("", "v1", "pods");
/// let cluster = Cluster::builder().virtual_time(1).start().await;
/// cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}").await.unwrap();
///
/// // An object contains a part.
/// let pod = eventually!(cluster, PODS, "default", "a", {"status": {"phase": "Running"}});
/// assert_eq!(pod["spec"]["nodeName"], "node-0");
/// // Within a minute of the cluster's time.
/// eventually!(within Duration::from_secs(60), cluster, PODS, "default", "a", {"status": {"phase": "Running"}});
///
/// // A check of one's own, which is repeated after writes to the cluster.
/// let pods = cluster.client().dynamic(kstore_testing::Gvr::new("", "v1", "pods"));
/// eventually!(cluster, async || match pods.list("", &Default::default()).await {
///     Ok((pods, _)) if pods.len() == 1 => Ok(()),
///     other => Err(format!("{other:?}")),
/// });
///
/// // An object does not exist any more.
/// pods.delete("default", "a", &Default::default()).await.unwrap();
/// eventually!(cluster, PODS, "default", "a", gone);
/// # });
/// ```
#[macro_export]
macro_rules! eventually {
    (within $limit:expr, $cluster:expr, $resource:expr, $namespace:expr, $name:expr, gone) => {
        $cluster
            .wait_until_gone_within($limit, $resource, $namespace, $name)
            .await
            .unwrap_or_else(|report| panic!("{report}"))
    };
    (within $limit:expr, $cluster:expr, $resource:expr, $namespace:expr, $name:expr, {$($subset:tt)*}) => {
        $cluster
            .wait_for_within($limit, $resource, $namespace, $name, &$crate::__json!({$($subset)*}))
            .await
            .unwrap_or_else(|report| panic!("{report}"))
    };
    (within $limit:expr, $cluster:expr, $check:expr $(,)?) => {
        $cluster.check_within($limit, $check).await.unwrap_or_else(|report| panic!("{report}"))
    };
    ($cluster:expr, $($rest:tt)+) => {
        $crate::eventually!(within $cluster.wait_limit(), $cluster, $($rest)+)
    };
}
