//! Waits for a state of an object, by a watch and without polling. The error reports the expected and the found state, and the writes that
//! led to it.

use crate::limits::{WAIT, WAIT_REAL};
use crate::{Cluster, causes, subset, trace};
use futures::StreamExt as _;
use kstore_client::{Gvr, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, SourceError, Start};
use kstore_store::{KeyRange, WatchRequest};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// Error of a failed wait. Its text has a diff of the expected fields, and the last writes with their causes.
pub struct WaitError(String);

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prints the same text as [`fmt::Display`], so that `unwrap` prints the report in lines.
impl fmt::Debug for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WaitError {}

/// The last state of an object that a watch delivered.
enum LastSeen {
    /// The watch has delivered no state yet.
    Nothing,
    Object(Box<Value>),
    Deleted,
}

/// The state of an object that a wait expects.
enum ExpectedState<'w> {
    Subset(&'w Value),
    Gone,
}

/// `(group, version, plural)` of a resource.
pub type ResourceName = (&'static str, &'static str, &'static str);

impl Cluster {
    /// Waits until an object contains `subset` (see [`crate::is_subset`]) and returns it. The namespace is empty for cluster-scoped
    /// resources. The time limit is half an hour in virtual time and a minute in real time.
    ///
    /// # Errors
    /// The object does not contain `subset` within the time limit, or cannot be watched; the error is a report.
    pub async fn wait_for(
        &self,
        resource: ResourceName,
        namespace: &str,
        name: &str,
        subset: &Value,
    ) -> Result<Value, WaitError> {
        self.wait_for_within(self.wait_limit(), resource, namespace, name, subset).await
    }

    /// Waits until an object contains `subset`, like [`Self::wait_for`], with a time limit by the cluster's clock.
    ///
    /// # Errors
    /// The object does not contain `subset` within `limit`, or cannot be watched; the error is a report.
    pub async fn wait_for_within(
        &self,
        limit: Duration,
        resource: ResourceName,
        namespace: &str,
        name: &str,
        subset: &Value,
    ) -> Result<Value, WaitError> {
        self.wait(limit, resource, (namespace, name), ExpectedState::Subset(subset)).await
    }

    /// Waits until an object does not exist, with a time limit by the cluster's clock.
    ///
    /// # Errors
    /// The object still exists after `limit`, or cannot be watched; the error is a report.
    pub async fn wait_until_gone_within(
        &self,
        limit: Duration,
        resource: ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<(), WaitError> {
        self.wait(limit, resource, (namespace, name), ExpectedState::Gone).await.map(drop)
    }

    /// Calls `check` now and after writes to the cluster until it returns `Ok`. The result of `check` must depend on the cluster's objects
    /// only, because only writes make it run again. Writes during a run are not missed.
    ///
    /// # Errors
    /// `check` does not return `Ok` within `limit` of the cluster's clock; the report has its last error.
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

    /// The default time limit of waits.
    #[doc(hidden)]
    pub fn wait_limit(&self) -> Duration {
        if self.has_virtual_time() { WAIT } else { WAIT_REAL }
    }

    fn writes_from_now(&self) -> Result<kstore_store::Watcher, String> {
        let store = self.store();
        let request = WatchRequest::new(KeyRange::all()).from(store.revision().next());
        store.watch(request).map_err(|error| error.to_string())
    }

    async fn wait(
        &self,
        limit: Duration,
        (group, version, plural): ResourceName,
        (namespace, name): (&str, &str),
        wanted: ExpectedState<'_>,
    ) -> Result<Value, WaitError> {
        let gvr = Gvr::new(group, version, plural);
        let mut last = LastSeen::Nothing;
        let holds = |seen: &LastSeen| match (&wanted, seen) {
            (ExpectedState::Subset(subset), LastSeen::Object(object)) => subset::is_subset(subset, object),
            (ExpectedState::Gone, LastSeen::Deleted | LastSeen::Nothing) => true,
            (ExpectedState::Subset(_), _) | (ExpectedState::Gone, LastSeen::Object(_)) => false,
        };
        let waiting = self.watch_until(&gvr, namespace, name, &mut last, holds);
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
            (LastSeen::Object(object), ExpectedState::Subset(subset)) => subset::diff(subset, object),
            (LastSeen::Object(object), ExpectedState::Gone) => {
                format!("the object still exists; its metadata: {}\n", object["metadata"])
            }
        };
        let writes = self.writes_of(&gvr, namespace, name).await;
        let object = causes::name_of(plural, namespace, name).replacen('/', " ", 1);
        Err(WaitError(format!("waited for {object}: {failure}\n{found}{writes}")))
    }

    /// Report of the writes to an object, with the writes that they caused and the causes of the last ones.
    async fn writes_of(&self, gvr: &Gvr, namespace: &str, name: &str) -> String {
        match trace::of(self.client(), gvr, namespace, name).await {
            Err(error) => format!("its writes are not known: {error}\n"),
            Ok(trace) => {
                let object = causes::name_of(&gvr.resource, namespace, name);
                let causes = causes::of_last_writes(self.store(), &trace, &object).await;
                let writes = trace::render(&trace);
                format!("writes and what followed:\n{writes}last writes and what led there:\n{causes}")
            }
        }
    }

    async fn watch_until(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        last: &mut LastSeen,
        holds: impl Fn(&LastSeen) -> bool,
    ) -> Result<(), String> {
        let source =
            self.client().dynamic(gvr.clone()).source(WatchParams::default().ns(namespace).name(name));
        loop {
            // A new watch begins with the current state, which does not mention deleted objects.
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
                        // The end of the current state: an object that was not delivered before does not exist.
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

/// Waits for a state of a cluster and returns it; panics with a report if the state does not come within the time limit. The report has the
/// difference between the expected and the found state, the writes to the object with the writes that they caused, and the causes of
/// the last ones.
///
/// The wait uses watches. The time limit is half an hour in virtual time and a minute in real time, unless `within` sets another:
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
/// // Wait until an object contains these fields.
/// let pod = eventually!(cluster, PODS, "default", "a", {"status": {"phase": "Running"}});
/// assert_eq!(pod["spec"]["nodeName"], "node-0");
/// // The same with a time limit of one minute of the cluster's time.
/// eventually!(within Duration::from_secs(60), cluster, PODS, "default", "a", {"status": {"phase": "Running"}});
///
/// // A custom check, which is repeated after writes to the cluster.
/// let pods = cluster.client().dynamic(kstore_testing::Gvr::new("", "v1", "pods"));
/// eventually!(cluster, async || match pods.list("", &Default::default()).await {
///     Ok((pods, _)) if pods.len() == 1 => Ok(()),
///     other => Err(format!("{other:?}")),
/// });
///
/// // Wait until an object does not exist.
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
