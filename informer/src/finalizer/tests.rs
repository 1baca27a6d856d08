//! Tests of finalizers over a store that removes a deleted object when its list is empty.

use super::*;
use crate::testing::{Chaos, FakeKind, FakeStore, StoreError, Stored};
use crate::{Builder, Controller, Key};
use futures::FutureExt;
use kstore_nondet::{Nondet, Rng};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const OURS: &str = "example.com/ours";

#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    key: Key,
    uid: String,
    revision: Revision,
    deleting: bool,
    list: Vec<String>,
}

impl Bucket {
    fn new(list: &[&str]) -> Self {
        let list = list.iter().map(|&s| s.to_owned()).collect();
        Self { key: Key::new("", "a"), uid: String::new(), revision: Revision(0), deleting: false, list }
    }
}

impl Object for Bucket {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

impl Stored for Bucket {
    fn stamp(&mut self, uid: &str, revision: Revision) {
        uid.clone_into(&mut self.uid);
        self.revision = revision;
    }
}

/// Server-side behaviour of finalizers.
#[derive(Clone)]
struct Server(FakeKind<Bucket>);

impl Server {
    fn new() -> Self {
        Self(FakeStore::new().kind("buckets"))
    }

    fn get(&self) -> Option<Bucket> {
        self.0.get(&Key::new("", "a")).map(|bucket| (*bucket).clone())
    }

    /// Stores a state, or removes a deleted object without finalizers.
    fn put(&self, bucket: Bucket) -> Revision {
        if bucket.deleting && bucket.list.is_empty() {
            return self.0.delete(&bucket.key).unwrap();
        }
        self.0.put(bucket).revision
    }

    fn delete(&self) {
        if let Some(bucket) = self.get() {
            self.put(Bucket { deleting: true, ..bucket });
        }
    }
}

impl Finalizers for Server {
    type Obj = Bucket;
    type Error = StoreError;

    fn list(object: &Bucket) -> impl Iterator<Item = &str> {
        object.list.iter().map(String::as_str)
    }

    fn is_deleting(object: &Bucket) -> bool {
        object.deleting
    }

    async fn edit(&self, object: &Bucket, edit: Edit<'_>) -> Result<Revision, StoreError> {
        let mut bucket = self.get().filter(|b| b.uid == object.uid).ok_or(StoreError::NotFound)?;
        match edit {
            Edit::Add { .. } if bucket.deleting => return Err(StoreError::Conflict),
            Edit::Add { first: true, .. } if !bucket.list.is_empty() => return Err(StoreError::Conflict),
            Edit::Add { name, .. } => bucket.list.push(name.to_owned()),
            Edit::Remove { name, at } if bucket.list.get(at).is_none_or(|entry| entry != name) => {
                return Err(StoreError::Conflict);
            }
            Edit::Remove { at, .. } => {
                bucket.list.remove(at);
            }
        }
        Ok(self.put(bucket))
    }
}

proptest! {
    /// The table of [`finalize`]; no write touches other finalizers, however outdated the object is.
    #[test]
    fn an_edit_of_an_old_state_changes_only_the_own_finalizer(
        then in proptest::sample::subsequence(vec!["x", OURS, "y"], 0..=3), was_deleting in any::<bool>(),
        now in proptest::sample::subsequence(vec!["x", "y", OURS, "z"], 1..=4), deleting in any::<bool>(),
    ) {
        let server = Server::new();
        server.put(Bucket::new(&now));
        let stored = Bucket { deleting, ..server.get().unwrap() };
        server.put(stored.clone());
        let cached = Bucket { deleting: was_deleting, list: Bucket::new(&then).list, ..stored.clone() };
        let duties = Mutex::new(Vec::new());
        let outcome = finalize(&server, OURS, &cached, |duty| {
            duties.lock().push(duty);
            std::future::ready(Ok::<_, &str>(Action::Done))
        }).now_or_never().unwrap();
        let ours = then.contains(&OURS);
        let due = match (ours, was_deleting) {
            (true, true) => vec![Duty::Cleanup],
            (true, false) => vec![Duty::Apply],
            (false, _) => vec![],
        };
        prop_assert_eq!(&*duties.lock(), &due);
        let after = server.get().map(|bucket| bucket.list).unwrap_or_default();
        let others = |list: &[String]| list.iter().filter(|e| *e != OURS).cloned().collect::<Vec<_>>();
        prop_assert_eq!(others(&after), others(&stored.list));
        match outcome {
            Ok(Finalized { wrote: Some(_), .. }) => prop_assert_eq!(after.iter().any(|e| e == OURS), !ours),
            _ => prop_assert_eq!(after, stored.list),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_cleanup_keeps_the_finalizer() {
    let server = Server::new();
    server.put(Bucket::new(&["x", OURS]));
    server.delete();
    let cached = server.get().unwrap();
    let outcome = finalize(&server, OURS, &cached, |_| async { Err("no connection") }).await;
    assert_eq!(outcome, Err(FinalizeError::Duty("no connection")));
    assert_eq!(server.get().unwrap().list, ["x", OURS]);
}

/// External resources: one per object.
#[derive(Clone)]
struct OuterFinalizer {
    server: Server,
    made: Arc<Mutex<BTreeSet<String>>>,
    /// Whether a resource was created for an object without the finalizer.
    broken: Arc<AtomicBool>,
}

impl OuterFinalizer {
    fn execute(&self, duty: Duty, uid: &str) -> Result<Action, Infallible> {
        let held = self.server.get().is_some_and(|b| b.uid == uid && b.list.iter().any(|e| e == OURS));
        match duty {
            Duty::Apply => {
                let new = self.made.lock().insert(uid.to_owned());
                self.broken.fetch_or(new && !held, Ordering::Relaxed);
            }
            Duty::Cleanup => {
                self.made.lock().remove(uid);
            }
        }
        Ok(Action::Done)
    }
}

/// For every watch behaviour: external resources are gone when the object is, and none is created without the
/// finalizer.
#[tokio::test(start_paused = true)]
async fn external_resources_are_removed_before_the_object() {
    for seed in 0..20 {
        let (server, stop) = (Server::new(), CancellationToken::new());
        let chaos = Chaos { delay: 60, ..Chaos::new(Rng::seeded(seed)) };
        let cache = Builder::new(server.0.source().chaos(chaos)).spawn(&stop);
        let outside = Arc::new(Mutex::new(BTreeSet::new()));
        let broken = Arc::new(AtomicBool::new(false));
        let controller = Controller::new("buckets", Nondet::simulated(seed)).watch(&cache, |b| Some(b.key()));
        let outer = OuterFinalizer { server: server.clone(), made: outside.clone(), broken: broken.clone() };
        tokio::spawn(controller.run(stop.clone(), move |cx| {
            let (cache, outer) = (cache.clone(), outer.clone());
            async move {
                let Some(bucket) = cache.get(&cx.key) else { return Ok(Action::Done) };
                let duty = |duty| std::future::ready(outer.execute(duty, &bucket.uid));
                let done = finalize(&outer.server, OURS, &bucket, duty).await?;
                if let Some(revision) = done.wrote {
                    cx.wrote(&cache, revision);
                }
                Ok::<_, FinalizeError<Infallible, StoreError>>(done.action)
            }
        }));
        for _ in 0..5 {
            server.put(Bucket::new(&["x"]));
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert!(server.get().unwrap().list.iter().any(|e| e == OURS), "seed {seed}");
            assert_eq!(outside.lock().len(), 1, "seed {seed}");
            server.delete();
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!(server.get().unwrap().list, ["x"], "seed {seed}");
            assert!(outside.lock().is_empty(), "seed {seed}");
            let bucket = server.get().unwrap();
            server.put(Bucket { list: Vec::new(), ..bucket });
        }
        assert!(!broken.load(Ordering::Relaxed), "seed {seed}");
        stop.cancel();
    }
}
