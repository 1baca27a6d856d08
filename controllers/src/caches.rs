//! [`Caches`]: the informers that controllers share. A kind is watched once however many controllers read it, not at all if none does, and
//! all on one stream: the caches pass through the same revisions together. What is kept of a kind, and by what it is found, is
//! declared as a [`Watched`] type beside the controllers that read it; `shared` has those that several read.

mod shared;

pub(crate) use shared::{Held, Pods, ReplicaSets, ReplicationControllers, Services};

use crate::resource::{Resource, resource_of};
use kstore_client::{Client, Kind, MultiSource, Obj, WatchParams};
use kstore_informer::metrics::Registry;
use kstore_informer::{Builder, Context, Informer, ListerWatcher, Revision, TaskGroup};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::pin::Pin;

/// A cache that controllers ask for by its type: an informer, or one with its indexes. A clone shows the same objects.
pub(crate) trait Watched: Clone + Send + Sync + 'static {
    /// Builds its informer with [`Sources::start`].
    fn start(from: &Sources<'_>) -> Self;
}

/// Whole objects of a kind, without indexes.
impl<K: Kind> Watched for Informer<Obj<K>> {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.source::<K>(WatchParams::default());
        from.start(K::URL_PATH_SEGMENT, Some(resource_of::<K>()), Builder::new(source))
    }
}

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes a run wait until an informer shows a revision.
type Fence = Box<dyn Fn(&Context, Revision) + Send + Sync>;

/// All caches of one generation of controllers.
pub(crate) struct Caches {
    client: Client,
    multi: MultiSource,
    nondet: Nondet,
    metrics: Registry,
    tasks: TaskGroup,
    state: Mutex<State>,
}

/// What was asked for so far.
#[derive(Default)]
struct State {
    started: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    fences: BTreeMap<Resource, Vec<Fence>>,
    /// Shows all kinds that no other cache shows.
    everything: Option<Fence>,
    /// What drives the informers, until [`Caches::launch`]; later ones run at once.
    waiting: Option<Vec<Driver>>,
}

/// What a cache is built from.
pub(crate) struct Sources<'a> {
    /// The stream that all caches share.
    pub multi: &'a MultiSource,
    /// For sources of several kinds.
    pub client: &'a Client,
    caches: &'a Caches,
}

impl Sources<'_> {
    /// The informer of `builder`, under this name in figures and logs. Runs that wrote an object of `resource` wait until it shows what
    /// they wrote; without a resource, those that wrote an object that no other cache shows.
    pub(crate) fn start<S: ListerWatcher>(
        &self,
        name: &str,
        resource: Option<Resource>,
        builder: Builder<S>,
    ) -> Informer<S::Obj> {
        let caches = self.caches;
        let builder = builder.name(name).rng(&caches.nondet.rng).metrics(&caches.metrics);
        let (informer, driver) = builder.build(caches.tasks.stop());
        let shown = informer.clone();
        let fence: Fence = Box::new(move |cx, revision| cx.wrote(&shown, revision));
        let mut state = caches.state.lock();
        match resource {
            Some(resource) => state.fences.entry(resource).or_default().push(fence),
            None => state.everything = Some(fence),
        }
        match &mut state.waiting {
            Some(waiting) => waiting.push(Box::pin(driver)),
            None => caches.tasks.spawn(driver),
        }
        informer
    }
}

impl Caches {
    /// No cache yet. Those that are asked for before [`Caches::launch`] begin with one state of one revision; the tasks that fill
    /// them are in `tasks`.
    pub(crate) fn new(client: Client, nondet: &Nondet, metrics: &Registry, tasks: &TaskGroup) -> Self {
        let state = State { waiting: Some(Vec::new()), ..State::default() };
        Self {
            multi: client.multi(),
            client,
            nondet: nondet.clone(),
            metrics: metrics.clone(),
            tasks: tasks.clone(),
            state: Mutex::new(state),
        }
    }

    /// This cache: started now, or shared with those who asked before. Controllers ask when they are set up, and keep it.
    pub(crate) fn get<W: Watched>(&self) -> W {
        let known = |state: &State| state.started.get(&TypeId::of::<W>())?.downcast_ref::<W>().cloned();
        if let Some(found) = known(&self.state.lock()) {
            return found;
        }
        let started = W::start(&Sources { multi: &self.multi, client: &self.client, caches: self });
        self.state.lock().started.insert(TypeId::of::<W>(), Box::new(started.clone()));
        started
    }

    /// The cache of whole objects of a kind.
    pub(crate) fn whole<K: Kind>(&self) -> Informer<Obj<K>> {
        self.get()
    }

    /// Begins to fill the caches.
    pub(crate) fn launch(&self) {
        let waiting = self.state.lock().waiting.take();
        waiting.into_iter().flatten().for_each(|driver| self.tasks.spawn(driver));
    }

    /// Says that the run `cx` wrote an object of `resource` at `revision`: its key does not run again before the caches show it.
    pub(crate) fn wrote(&self, cx: &Context, resource: &Resource, revision: Revision) {
        let state = self.state.lock();
        match state.fences.get(resource) {
            Some(fences) => fences.iter().for_each(|fence| fence(cx, revision)),
            None => state.everything.iter().for_each(|fence| fence(cx, revision)),
        }
    }
}
