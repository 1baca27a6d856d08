//! Requests that take many milliseconds of processor time without a pause: large objects, and objects whose
//! CEL rules have turned out to be costly. They run apart from the threads that serve all other requests. The
//! rules themselves bound the cost of one request.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kstore_access::audit;
use kstore_admission::Admission;
use kstore_api::status::Status;
use kstore_registry::cache::Cache;
use kstore_registry::decode::weight;
use kstore_registry::entry::Entry;
use kstore_registry::request::{Action, Format, Request, Target, Transaction, TransactionStep};
use kstore_storage::limits;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Values whose memory a map takes besides its members, for itself and for defaults.
const MAP_VALUES: usize = 3;

/// Permits for heavy requests, which bound how many run at a time.
#[derive(Debug)]
pub(super) struct Heavy {
    permits: Semaphore,
}

impl Default for Heavy {
    fn default() -> Self {
        Self { permits: Semaphore::new(limits::HEAVY_AT_A_TIME) }
    }
}

impl Heavy {
    /// Serves a heavy request: waits for its permits, and moves the runtime's other tasks to another thread
    /// whenever `serving` is polled. A request of more than one permit is polled on a thread of its own.
    pub(super) async fn run<T: Send>(&self, permits: u32, serving: impl Future<Output = T> + Send) -> T {
        // The semaphore is never closed; without a permit the request would only be served on the common
        // threads.
        let _permit = self.permits.acquire_many(permits).await.ok();
        let serving = match audit::current() {
            // The trail belongs to the task, which another thread does not know.
            Some(trail) if permits > 1 => audit::scope(trail, serving).boxed(),
            _ => serving.boxed(),
        };
        BlockInPlace { serving, has_thread: permits > 1 }.await
    }
}

/// Checks that what the body of a request becomes in memory is bounded.
///
/// # Errors
/// 413.
pub(super) fn check(request: &Request) -> Result<(), Status> {
    weight::check(weight::body(&request.action).into_iter())
}

/// Checks the bodies of a transaction together, like [`check`].
///
/// # Errors
/// 413.
pub(super) fn check_transaction(transaction: &Transaction) -> Result<(), Status> {
    weight::check(transaction.steps.iter().filter_map(|step| match step {
        TransactionStep::Act(_, action) => weight::body(action),
        TransactionStep::Check(..) => None,
    }))
}

/// Checks the bodies of independent operations together, like [`check`]: they are decoded at the same time.
///
/// # Errors
/// 413.
pub(super) fn check_group(requests: &[&Request]) -> Result<(), Status> {
    weight::check(requests.iter().filter_map(|request| weight::body(&request.action)))
}

/// Whether independent operations are heavy together.
pub(super) fn is_heavy_group(cache: &Cache, admission: &Admission, requests: &[&Request]) -> bool {
    let work = |request: &&Request| work(cache, &request.target, &request.action);
    admission.is_costly()
        || requests.iter().any(|request| has_costly_rules(&request.target))
        || requests.iter().map(work).sum::<usize>() >= limits::HEAVY_BYTES
}

/// The permits of heavy independent operations together.
pub(super) fn permits_of_group(cache: &Cache, requests: &[&Request]) -> u32 {
    permits_of(requests.iter().map(|request| values(cache, &request.target, &request.action)).sum())
}

/// Whether a request is heavy: it is large or has many maps, or CEL rules or policies that judge it have been costly before.
/// The first costly object is not recognized beforehand: it occupies one thread as long as CEL's cost limits
/// allow, about half a second.
pub(super) fn is_heavy(cache: &Cache, admission: &Admission, request: &Request) -> bool {
    work(cache, &request.target, &request.action) >= limits::HEAVY_BYTES
        || request.action.is_write() && (admission.is_costly() || has_costly_rules(&request.target))
}

/// The permits of a heavy request. A decoded value takes some hundred bytes of memory, so that a body of many small values
/// takes far more than its length: such requests run alone.
pub(super) fn permits(cache: &Cache, request: &Request) -> u32 {
    permits_of(values(cache, &request.target, &request.action))
}

/// The permits of the operations of a heavy transaction together.
pub(super) fn permits_of_transaction(cache: &Cache, transaction: &Transaction) -> u32 {
    let values = transaction.steps.iter().map(|step| match step {
        TransactionStep::Act(target, action) => values(cache, target, action),
        TransactionStep::Check(..) => 0,
    });
    permits_of(values.sum())
}

fn permits_of(values: usize) -> u32 {
    let most = u32::try_from(limits::HEAVY_AT_A_TIME).unwrap_or(u32::MAX);
    u32::try_from(values / limits::HEAVY_VALUES).unwrap_or(most).clamp(1, most)
}

/// About the number of values in the body of an operation and in the stored object that it changes.
fn values(cache: &Cache, target: &Target, action: &Action) -> usize {
    let separators = |bytes: &[u8]| {
        let lines = bytes.split(|byte| *byte == b'\n').count();
        bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count().max(lines)
    };
    let body = weight::body(action).map_or(0, |(format, bytes)| {
        let separators = if format == Format::Protobuf { 0 } else { separators(bytes) };
        separators + MAP_VALUES * weight::maps(format, bytes)
    });
    // Small objects have few values.
    let stored = stored(cache, target, action).filter(|entry| entry.weight() >= limits::HEAVY_BYTES);
    body + stored.map_or(0, |entry| separators(&entry.json()))
}

fn has_costly_rules(target: &Target) -> bool {
    let versions = target.custom.iter().flat_map(|custom| &custom.definition().versions);
    versions.into_iter().any(|version| version.tree.has_costly_rules())
}

/// Whether the operations of a transaction are heavy together.
pub(super) fn is_heavy_transaction(cache: &Cache, admission: &Admission, transaction: &Transaction) -> bool {
    let has_costly_rules = |step: &TransactionStep| match step {
        TransactionStep::Act(target, _) => has_costly_rules(target),
        TransactionStep::Check(..) => false,
    };
    if admission.is_costly() || transaction.steps.iter().any(has_costly_rules) {
        return true;
    }
    let work = transaction.steps.iter().map(|step| match step {
        TransactionStep::Act(target, action) => work(cache, target, action),
        TransactionStep::Check(..) => 0,
    });
    work.sum::<usize>() >= limits::HEAVY_BYTES
}

/// Bytes that an operation decodes, changes and checks: its body and the stored object that it changes. A
/// patch of a few bytes takes as much work as its object does, and a body of many maps as much as a large one.
fn work(cache: &Cache, target: &Target, action: &Action) -> usize {
    let body = match weight::body(action) {
        Some((format, bytes)) if bytes.len() >= limits::HEAVY_SCAN_BYTES => {
            bytes.len().max(weight::maps(format, bytes) * limits::HEAVY_BYTES / limits::HEAVY_MAPS)
        }
        Some((_, bytes)) => bytes.len(),
        None => 0,
    };
    body + stored(cache, target, action).map_or(0, |entry| entry.weight())
}

/// The stored object that an operation changes.
fn stored(cache: &Cache, target: &Target, action: &Action) -> Option<Arc<Entry>> {
    let is_change = match action {
        Action::Update(..) | Action::Patch(..) | Action::Delete(..) => true,
        // A new object is not stored yet; a POST to a subresource is about a stored one.
        Action::Create(..) => !target.subresource.is_empty(),
        Action::Get(_) | Action::List(_) | Action::Watch(_) | Action::DeleteCollection(..) => false,
    };
    let has_stored = is_change && target.resource.is_stored();
    has_stored.then(|| cache.get(target.resource, &target.key())).flatten()
}

/// A future whose polls block no other task of the runtime.
struct BlockInPlace<'a, T> {
    serving: BoxFuture<'a, T>,
    /// Whether each poll has a thread of its own.
    has_thread: bool,
}

impl<T: Send> BlockInPlace<'_, T> {
    /// Polls on a new thread. The runtime's threads take turns in serving heavy requests, and an allocator keeps for some time what was
    /// freed on each of them: a request of many values would leave hundreds of MiB on every one. The allocator gives new threads, one
    /// after the other, the memory of their predecessor.
    fn poll_on_thread(&mut self, context: &Context<'_>) -> Poll<T> {
        let (waker, runtime) = (context.waker(), Handle::current());
        let serving = &mut self.serving;
        let polling = std::thread::scope(|scope| {
            let poll = move || {
                let _entered = runtime.enter();
                serving.as_mut().poll(&mut Context::from_waker(waker))
            };
            scope.spawn(poll).join()
        });
        polling.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<T: Send> Future for BlockInPlace<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // A runtime with one thread, as in simulations, has no other thread for its tasks; time does not
        // advance there.
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| match self.has_thread {
                true => self.poll_on_thread(context),
                false => self.serving.as_mut().poll(context),
            }),
            _ => self.serving.as_mut().poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use kstore_api::patch::PatchType;
    use kstore_nondet::Nondet;
    use kstore_registry::request::{Body, WriteOptions};
    use kstore_storage::storage::embedded::Embedded;
    use kstore_storage::storage::{Commit, Storage as _, Write};
    use kstore_store::{Config, Store};
    use serde_json::json;
    use std::panic::AssertUnwindSafe;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_large_request_occupies_the_only_worker() {
        let (send, receive) = mpsc::channel();
        let heavy = tokio::spawn(async move {
            let permits = Heavy::default();
            // Blocks the only worker's thread until the other task has run.
            let blocking = async move { receive.recv_timeout(Duration::from_secs(180)) };
            permits.run(1, blocking).await
        });
        let other = tokio::spawn(async move { send.send("served") });
        assert_eq!(heavy.await.unwrap(), Ok("served"));
        // The receiver may be dropped once it has the message.
        let _ = other.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_request_of_many_values_runs_on_a_thread_of_its_own_within_the_runtime() {
        let here = std::thread::current().id();
        let heavy = Heavy::default();
        let threads = |permits| {
            heavy.run(permits, async {
                let first = std::thread::current().id();
                tokio::time::sleep(Duration::from_millis(1)).await;
                [first, std::thread::current().id()]
            })
        };
        assert!(!threads(2).await.contains(&here));
        let panics = AssertUnwindSafe(heavy.run(2, async { panic!("refused") })).catch_unwind().await;
        assert_eq!(panics.unwrap_err().downcast_ref(), Some(&"refused"));
        assert_eq!(heavy.permits.available_permits(), limits::HEAVY_AT_A_TIME);
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_serves_large_requests_on_its_own_thread() {
        assert_eq!(Heavy::default().run(1, async { 7 }).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_patch_of_a_large_object_is_as_heavy_as_the_object() {
        let storage = Embedded::new(Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap());
        let maps = kind::lookup("", "v1", "configmaps").unwrap();
        let put = |name: &str, bytes: usize| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "ns"}, "data": {"text": "x".repeat(bytes)}});
            let value = kstore_api::object::encode_stored(&object).into();
            Write::Put { key: maps.storage_key("ns", name), value, ttl_seconds: 0 }
        };
        let writes = vec![put("small", 1), put("large", limits::HEAVY_BYTES)];
        storage.commit(Commit { writes, ..Commit::default() }).await.unwrap();
        let (cache, _) = Cache::fill(Arc::new(storage), |_| {}).await.unwrap();
        let reviews = kind::lookup("authorization.k8s.io", "v1", "subjectaccessreviews").unwrap();
        let is_heavy = |resource, name: &str, action: Action| {
            let (namespace, name) = ("ns".to_owned(), name.to_owned());
            work(&cache, &Target { resource, custom: None, subresource: "", namespace, name }, &action)
                >= limits::HEAVY_BYTES
        };
        let patch = || Action::Patch(PatchType::Merge, "{}".into(), WriteOptions::default());
        let create = |bytes| Action::Create(Body::json(vec![b' '; bytes].into()), WriteOptions::default());
        assert!(is_heavy(maps, "large", patch()));
        assert!(!is_heavy(maps, "small", patch()) && !is_heavy(maps, "absent", patch()));
        assert!(is_heavy(maps, "", create(limits::HEAVY_BYTES)));
        assert!(!is_heavy(maps, "", create(10)));
        let many_maps = |count: usize| Body::json(r#"{"a":1},"#.repeat(count).into());
        let create_maps = |count| Action::Create(many_maps(count), WriteOptions::default());
        let permits = |action: &Action| {
            let (namespace, name) = ("ns".to_owned(), String::new());
            let target = Target { resource: reviews, custom: None, subresource: "", namespace, name };
            permits_of(values(&cache, &target, action))
        };
        let all = u32::try_from(limits::HEAVY_AT_A_TIME).unwrap();
        assert_eq!(
            [create_maps(8_000), create_maps(175_000), create(limits::BODY_BYTES)]
                .map(|action| permits(&action)),
            [1, all, 1]
        );
        assert!(is_heavy(maps, "", Action::Create(many_maps(limits::HEAVY_MAPS), WriteOptions::default())));
        let empty_items = Body { format: Format::Protobuf, bytes: [0x0a, 0].repeat(50_000).into() };
        assert!(is_heavy(maps, "", Action::Create(empty_items, WriteOptions::default())));
        assert!(!is_heavy(reviews, "large", patch()), "a kind that is not stored has no keys");
    }
}
