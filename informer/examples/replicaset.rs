//! A ReplicaSet controller that keeps the desired number of pods per set and creates no pod twice, even with
//! a late watch. It runs on an in-memory store; `main` changes sets and pods and prints the results.
//!
//! `cargo run -p kstore-informer --example replicaset --features testing`

use kstore_informer::testing::{FakeKind, FakeStore, Sample};
use kstore_informer::{
    Action, Builder, Context, Controller, Index, Informer, ListerWatcher, NotSynced, Object,
};
use kstore_nondet::{Nondet, Rng};
use std::error::Error;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// State that each run reads and writes.
#[derive(Clone)]
struct ReplicaSets {
    sets: Informer<Sample>,
    pods: Informer<Sample>,
    by_owner: Index<Sample, String>,
    api: FakeKind<Sample>,
    rng: Rng,
}

async fn replicasets(
    sets: impl ListerWatcher<Obj = Sample>,
    pods: impl ListerWatcher<Obj = Sample>,
    api: FakeKind<Sample>,
    stop: CancellationToken,
) -> Result<(), NotSynced> {
    let (nondet, by_owner) = (Nondet::real(), Index::by_controller());
    let sets = Builder::new(sets).name("sets").spawn(&stop);
    let pods = Builder::new(pods).name("pods").index(&by_owner).spawn(&stop);
    let controller = Controller::new("replicaset", &nondet)
        .watch(&sets, |set| Some(set.key()))
        .watch(&pods, |pod| pod.controller().map(|(_, set)| set));
    let me = ReplicaSets { sets, pods, by_owner, api, rng: nondet.rng };
    let reconcile = move |cx| {
        let me = me.clone();
        async move { me.reconcile(cx).await }
    };
    controller.run(stop, reconcile).await
}

impl ReplicaSets {
    async fn reconcile(&self, cx: Context) -> Result<Action, Box<dyn Error + Send + Sync>> {
        let (sets, pods) = cx.cut((&self.sets, &self.pods)).await?; // both at one revision
        let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
        let live: Vec<_> = pods.by(&self.by_owner, set.uid()).collect();
        println!("{}: wants {}, has {}, because of {}", cx.key, set.value, live.len(), cx.causes);
        for _ in live.len() as u64..set.value {
            let name = format!("{}-{}", cx.key.name(), self.rng.name_suffix(5));
            let pod = self.api.create(Sample::new(cx.key.namespace(), &name).owned_by(&**set))?;
            cx.wrote(&self.pods, pod.revision()); // the next run sees it
        }
        for pod in live.iter().skip(set.value as usize) {
            cx.wrote(&self.pods, self.api.delete(&pod.key())?);
        }
        Ok(Action::Done)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
    let controller = replicasets(sets.source(), pods.source(), pods.clone(), stop.clone());
    let running = tokio::spawn(controller);
    let show = async |what: &str| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let names: Vec<_> = pods.list().iter().map(|pod| pod.key().to_string()).collect();
        println!("{what}: {}\n", names.join(" "));
    };
    sets.create(Sample::new("default", "web").value(3))?;
    show("a set of three").await;
    pods.delete(&pods.list()[0].key())?;
    show("one pod deleted").await;
    sets.put(Sample::new("default", "web").value(1));
    show("a set of one").await;
    stop.cancel();
    Ok(running.await??)
}
