//! [`assert_converges`]: checks that a cache becomes equal to the store, and reports differences.

use super::{FakeKind, Stored};
use crate::{Informer, Key, Revision};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit in the runtime's time, far above all waits of a failing informer. With a paused clock it passes
/// at once.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Waits until the cache equals the store, at the store's revision. Undecodable objects are ignored. No task
/// should write meanwhile.
///
/// # Panics
/// When that does not happen within an hour of the runtime's time, or the informer ends before. The message
/// has the objects that differ, the informer's status, and the seeds of the random faults.
pub async fn assert_converges<T: Stored>(informer: &Informer<T>, kind: &FakeKind<T>) {
    let converged = async {
        let mut changes = informer.subscribe();
        loop {
            if informer.wait_for(kind.store.revision()).await.is_err() {
                return;
            }
            if difference(informer, kind).is_none() || changes.next().await.is_none() {
                return;
            }
        }
    };
    let waited = timeout(PATIENCE, converged).await;
    let Some(difference) = difference(informer, kind) else { return };
    let why = if waited.is_ok() { "ended" } else { "does not converge" };
    let (status, seeds) = (informer.status(), kind.store.seeds());
    panic!("informer {} {why} ({status:?}; fault seeds {seeds:?}):\n{difference}", informer.name());
}

type KnownObjects = BTreeMap<Key, (String, Revision)>;

/// Differences, one line per object.
fn difference<T: Stored>(informer: &Informer<T>, kind: &FakeKind<T>) -> Option<String> {
    let (objects, revision) = kind.list_at();
    let view = informer.view();
    let aside: Vec<Key> = informer.undecodable().into_iter().map(|what| what.key).collect();
    let known = |object: &T| (object.key(), (object.uid().to_owned(), object.revision()));
    let keep = |(key, _): &(Key, _)| !aside.contains(key);
    let wanted: KnownObjects = objects.iter().map(|object| known(object)).filter(keep).collect();
    let cached: KnownObjects = view.iter().map(|object| known(object)).filter(keep).collect();
    let mut text = String::new();
    if view.revision() != revision {
        let _ = writeln!(text, "  the store is at {revision}, the cache at {}", view.revision());
    }
    for key in wanted.keys().chain(cached.keys().filter(|key| !wanted.contains_key(*key))) {
        let (wanted, cached) = (wanted.get(key), cached.get(key));
        if wanted != cached {
            let _ = writeln!(text, "  {key}: stored {wanted:?}, cached {cached:?}");
        }
    }
    (!text.is_empty()).then_some(text)
}
