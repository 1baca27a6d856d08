//! A controller that keeps as many pods as each set wants, on a store in memory.

use std::{sync::Arc, time::Duration};

use kstore_informer::testing::{FakeStore, Sample, StoreError};
use kstore_informer::{Action, Builder, Controller, Index, Key, Object};
use kstore_nondet::Nondet;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), StoreError> {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
    let by_owner = Index::by_controller();
    let set_cache = Builder::new(sets.source()).spawn(&stop);
    let pod_cache = Builder::new(pods.source()).index(&by_owner).spawn(&stop);
    let controller = Controller::new("sets", &Nondet::real())
        .watch(&set_cache, |set| Some(set.key()))
        .watch(&pod_cache, |pod| pod.controller().map(|(_, owner)| owner));

    let all_pods = pods.clone();
    let running = tokio::spawn(controller.run(stop.clone(), move |cx| {
        let (sets, cache, pods, by_owner) =
            (set_cache.clone(), pod_cache.clone(), pods.clone(), by_owner.clone());
        async move {
            let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
            let live: Vec<Arc<Sample>> = cache.by(&by_owner, set.uid());
            for i in live.len() as u64..set.value {
                let name = format!("{}-{}-{i}", cx.key.name(), set.revision());
                let pod = pods.create(Sample::new(cx.key.namespace(), &name).owned_by(&set))?;
                cx.wrote(&cache, pod.revision()); // the next run sees this pod
            }
            for pod in live.iter().skip(set.value as usize) {
                cx.wrote(&cache, pods.delete(&pod.key())?);
            }
            Ok::<_, StoreError>(Action::Done)
        }
    }));

    sets.create(Sample::new("default", "web").value(3))?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("{:?}", all_pods.list().iter().map(|pod| pod.key()).collect::<Vec<Key>>());
    sets.put(Sample::new("default", "web").value(1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("{:?}", all_pods.list().iter().map(|pod| pod.key()).collect::<Vec<Key>>());
    stop.cancel();
    running.await.expect("the controller ends when it is stopped").expect("its caches were synced");
    Ok(())
}
