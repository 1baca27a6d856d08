//! Requests that take many milliseconds of processor time without a pause: large objects, and objects for which rules in CEL have turned
//! out to be costly. They are served aside from the threads that serve all others. Not the bounds on what one request may cost: those
//! are in the rules.

use crate::admission::Admission;
use crate::cache::Cache;
use crate::limits;
use crate::request::{Action, Request, Target, Transaction, TransactionStep};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Turns of large requests.
#[derive(Debug)]
pub(super) struct Heavy {
    turns: Semaphore,
}

impl Default for Heavy {
    fn default() -> Self {
        Self { turns: Semaphore::new(limits::HEAVY_AT_A_TIME) }
    }
}

impl Heavy {
    /// Runs what serves a large request: it waits for its turn, and the runtime's other tasks move to another thread whenever it is
    /// polled.
    pub(super) async fn run<T>(&self, serving: impl Future<Output = T>) -> T {
        // The semaphore is never closed; without a turn the request would only be served on the common threads.
        let _turn = self.turns.acquire().await.ok();
        Aside { serving: Box::pin(serving) }.await
    }
}

/// Whether a request is served aside: it is large, or rules or policies that judge it have been costly before. The first object that is
/// costly is not known as such beforehand: it occupies one thread for as long as the cost limits of CEL allow, about half a second.
pub(super) fn is_heavy(cache: &Cache, admission: &Admission, request: &Request) -> bool {
    work(cache, &request.target, &request.action) >= limits::HEAVY_BYTES
        || request.action.is_write() && (admission.is_costly() || has_costly_rules(&request.target))
}

fn has_costly_rules(target: &Target) -> bool {
    let versions = target.custom.iter().flat_map(|custom| &custom.definition().versions);
    versions.into_iter().any(|version| version.tree.has_costly_rules())
}

/// The same of all operations of a transaction together.
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

/// Bytes that are decoded, changed and checked for an operation: what it brings, and the object that it changes. A patch of a few bytes
/// takes all the work that its object does.
fn work(cache: &Cache, target: &Target, action: &Action) -> usize {
    let is_change = match action {
        Action::Update(..) | Action::Patch(..) | Action::Delete(..) => true,
        // A subresource is created in an object that is there.
        Action::Create(..) => !target.name.is_empty(),
        Action::Get(_) | Action::List(_) | Action::Watch(_) | Action::DeleteCollection(..) => false,
    };
    let has_stored = is_change && target.resource.is_stored();
    let stored = has_stored.then(|| cache.get(target.resource, &target.key())).flatten();
    action.body_size().unwrap_or(0) + stored.map_or(0, |entry| entry.weight())
}

/// A future whose polls block no other task of the runtime.
struct Aside<F> {
    serving: Pin<Box<F>>,
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // A runtime of one thread has none to move to: simulations, where time does not pass meanwhile.
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => {
                tokio::task::block_in_place(|| self.serving.as_mut().poll(context))
            }
            _ => self.serving.as_mut().poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Body, WriteOptions};
    use crate::storage::embedded::Embedded;
    use crate::storage::{Commit, Storage as _, Write};
    use kstore_api::kind;
    use kstore_api::patch::PatchType;
    use kstore_nondet::Nondet;
    use kstore_store::{Config, Store};
    use serde_json::json;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_large_request_occupies_the_only_worker() {
        let (send, receive) = mpsc::channel();
        let heavy = tokio::spawn(async move {
            let turns = Heavy::default();
            // Blocks its thread until the other task, on the same worker, has run.
            let blocking = async move { receive.recv_timeout(Duration::from_secs(30)) };
            turns.run(blocking).await
        });
        let other = tokio::spawn(async move { send.send("served") });
        assert_eq!(heavy.await.unwrap(), Ok("served"));
        // The receiver may be gone once it has what it waited for.
        let _ = other.await.unwrap();
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_serves_large_requests_where_it_is() {
        assert_eq!(Heavy::default().run(async { 7 }).await, 7);
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
        assert!(!is_heavy(reviews, "large", patch()), "a kind that is not stored has no keys");
    }
}
