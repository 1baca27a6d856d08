//! [`Caches`]: the informers that controllers share. Each kind is watched once, however many controllers read it, and not at all without
//! readers. The caches that are requested at the start share one watch stream, so they pass through the same revisions together. A cache
//! that is requested later has a stream of its own: a further part of the shared one would make all others list again. A [`Watched`] type
//! beside its controllers declares the cached fields and indexes of a kind; `shared` has those of several controllers. `selected` finds the
//! objects of a selector.

mod selected;
mod shared;

use crate::config::Config;
use crate::resource::{Resource, resource_of};
use kstore_client::{Client, Kind, MultiSource, Obj, WatchParams};
use kstore_informer::metrics::Registry;
use kstore_informer::{Builder, CacheSet, Context, Informer, ListerWatcher, Revision, TaskGroup};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
pub(crate) use selected::{candidates, selected, selected_by_map};
pub(crate) use shared::{
    DeviceId, LookupKey, Pods, ReplicaSets, ReplicationControllers, ResourceClaims, Services, allocated,
};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::pin::Pin;

/// A cache that controllers request by its type: an informer, possibly with indexes. Clones share the
/// objects.
pub(crate) trait Watched: Clone + Send + Sync + 'static {
    /// Builds the informer with [`Sources::start`].
    fn start(from: &Sources<'_>) -> Self;
}

/// Cache of a kind's complete objects, without indexes.
impl<K: Kind> Watched for Informer<Obj<K>> {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.trimmed::<K>(WatchParams::default());
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
    set: CacheSet,
    tasks: TaskGroup,
    state: Mutex<CachesState>,
}

/// Caches that were requested so far.
#[derive(Default)]
struct CachesState {
    started: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    fences: BTreeMap<Resource, Vec<Fence>>,
    /// Fence of the cache that shows all kinds without a cache of their own.
    everything: Option<Fence>,
    /// Drivers of the informers until [`Caches::launch`]; `None` afterwards, when new drivers start at once.
    waiting: Option<Vec<Driver>>,
}

/// Inputs for building a cache.
pub(crate) struct Sources<'a> {
    /// The watch stream that the caches of the start share, or that of a cache that is requested later.
    pub multi: &'a MultiSource,
    /// Client for sources of several kinds.
    pub client: &'a Client,
    caches: &'a Caches,
}

impl Sources<'_> {
    /// Builds the informer of `builder` with this name in metrics and logs. Runs that wrote an object of
    /// `resource` wait until this informer shows the write. Without a resource, it covers writes of kinds
    /// without a cache of their own.
    pub(crate) fn start<S: ListerWatcher>(
        &self,
        name: &str,
        resource: Option<Resource>,
        builder: Builder<S>,
    ) -> Informer<S::Obj> {
        let caches = self.caches;
        let builder = builder.name(name).rng(&caches.nondet.rng).metrics(&caches.metrics).caches(&caches.set);
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
    /// No caches yet. Caches that are requested before [`Caches::launch`] start with one state at one
    /// revision; later ones start on their own. The drivers run in `tasks`.
    pub(crate) fn new(client: Client, nondet: &Nondet, config: &Config, tasks: &TaskGroup) -> Self {
        let state = CachesState { waiting: Some(Vec::new()), ..CachesState::default() };
        Self {
            multi: client.multi(),
            client,
            nondet: nondet.clone(),
            metrics: config.metrics.clone(),
            set: config.caches.clone(),
            tasks: tasks.clone(),
            state: Mutex::new(state),
        }
    }

    /// The cache of this type, started now or shared with earlier requesters. Controllers request it once at
    /// setup.
    pub(crate) fn get<W: Watched>(&self) -> W {
        let known = |state: &CachesState| state.started.get(&TypeId::of::<W>())?.downcast_ref::<W>().cloned();
        if let Some(found) = known(&self.state.lock()) {
            return found;
        }
        let is_late = self.state.lock().waiting.is_none();
        let own = is_late.then(|| self.client.multi());
        let multi = own.as_ref().unwrap_or(&self.multi);
        let started = W::start(&Sources { multi, client: &self.client, caches: self });
        self.state.lock().started.insert(TypeId::of::<W>(), Box::new(started.clone()));
        started
    }

    /// The cache of complete objects of a kind.
    pub(crate) fn whole<K: Kind>(&self) -> Informer<Obj<K>> {
        self.get()
    }

    /// Starts the drivers of the caches.
    pub(crate) fn launch(&self) {
        let waiting = self.state.lock().waiting.take();
        waiting.into_iter().flatten().for_each(|driver| self.tasks.spawn(driver));
    }

    /// Records that the run `cx` wrote an object of `resource` at `revision`: its key does not run again
    /// before the caches show it.
    pub(crate) fn wrote(&self, cx: &Context, resource: &Resource, revision: Revision) {
        let state = self.state.lock();
        match state.fences.get(resource) {
            Some(fences) => fences.iter().for_each(|fence| fence(cx, revision)),
            None => state.everything.iter().for_each(|fence| fence(cx, revision)),
        }
    }
}
