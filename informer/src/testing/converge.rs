//! [`assert_converges`]: whether a cache becomes what the store is, and if not, what differs.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use tokio::time::timeout;

use super::{FakeKind, Stored};
use crate::{Informer, Key, Revision};

/// How long a cache may take, in the time of the runtime: all waits of an informer that fails again and again are far
/// below it. Under a paused clock it passes at once.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Waits until the cache shows exactly what the store holds, at the store's revision. Objects that the source cannot read
/// are left aside. Nobody should write meanwhile.
///
/// # Panics
/// When that does not happen within an hour of the runtime's time, or the informer ends before. Names the objects that
/// differ, what the informer was doing, and the seeds of the faults that were drawn at random.
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

type Known = BTreeMap<Key, (String, Revision)>;

/// What differs, a line for each object.
fn difference<T: Stored>(informer: &Informer<T>, kind: &FakeKind<T>) -> Option<String> {
    let (objects, revision) = kind.list_at();
    let view = informer.view();
    let aside: Vec<Key> = informer.undecodable().into_iter().map(|what| what.key).collect();
    let known = |object: &T| (object.key(), (object.uid().to_owned(), object.revision()));
    let keep = |(key, _): &(Key, _)| !aside.contains(key);
    let wanted: Known = objects.iter().map(|object| known(object)).filter(keep).collect();
    let cached: Known = view.iter().map(|object| known(object)).filter(keep).collect();
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
