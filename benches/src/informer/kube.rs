//! kube-rs's side: the writer of its store, called directly, without a stream around it.

use super::rounds::Recorder;
use super::{OBJECTS, corpus};
use k8s_openapi::api::core::v1::Pod;
use kube_runtime::reflector::store::Writer;
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::watcher::Event;
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct KubeRsCache {
    writer: Writer<Pod>,
    store: Store<Pod>,
    objects: usize,
    revision: u64,
}

/// A full store that is created on first use and kept.
pub(crate) type Lazy = Rc<RefCell<Option<KubeRsCache>>>;

pub(crate) fn lazy() -> Lazy {
    Rc::default()
}

/// Runs `work` with a store that has all objects.
pub(crate) fn with<R>(lazy: &Lazy, work: impl FnOnce(&mut KubeRsCache) -> R) -> R {
    work(lazy.borrow_mut().get_or_insert_with(|| KubeRsCache::full(OBJECTS)))
}

fn initial_events(objects: usize) -> Vec<Event<Pod>> {
    let pods = (0..objects).map(|number| Event::InitApply(corpus::kube_pod(number, number as u64 + 1)));
    std::iter::once(Event::Init).chain(pods).chain([Event::InitDone]).collect()
}

impl KubeRsCache {
    pub(crate) fn empty() -> Self {
        let writer = Writer::<Pod>::default();
        let store = writer.as_reader();
        Self { writer, store, objects: 0, revision: 0 }
    }

    pub(crate) fn full(objects: usize) -> Self {
        let mut theirs = Self::empty();
        theirs.apply(initial_events(objects));
        (theirs.objects, theirs.revision) = (objects, objects as u64);
        theirs
    }

    fn apply(&mut self, events: Vec<Event<Pod>>) {
        for event in events {
            self.writer.apply_watcher_event(&event);
        }
    }

    pub(crate) fn relist(&mut self) {
        for number in 0..self.objects {
            if number == 0 {
                self.writer.apply_watcher_event(&Event::Init);
            }
            self.writer.apply_watcher_event(&Event::InitApply(corpus::kube_pod(number, number as u64 + 1)));
        }
        self.writer.apply_watcher_event(&Event::InitDone);
    }

    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }
}

pub(crate) fn initial(recorder: &mut Recorder, objects: usize) -> anyhow::Result<()> {
    let (mut theirs, events) = (KubeRsCache::empty(), initial_events(objects));
    recorder.time(|| theirs.apply(events));
    anyhow::ensure!(theirs.len() == objects, "all are there");
    Ok(())
}

pub(crate) fn relist(recorder: &mut Recorder, objects: usize) -> anyhow::Result<()> {
    let (mut theirs, events) = (KubeRsCache::full(objects), initial_events(objects));
    recorder.time(|| theirs.apply(events));
    Ok(())
}

pub(crate) fn updates(theirs: &mut KubeRsCache, recorder: &mut Recorder, count: usize) -> anyhow::Result<()> {
    let events = corpus::shuffled(theirs.objects).cycle().take(count).map(|number| {
        theirs.revision += 1;
        Event::Apply(corpus::kube_pod(number, theirs.revision))
    });
    let events: Vec<_> = events.collect();
    recorder.time(|| theirs.apply(events));
    Ok(())
}

fn reference(number: usize) -> ObjectRef<Pod> {
    ObjectRef::new(&corpus::name(number)).within(&corpus::namespace(number))
}

pub(crate) fn get(theirs: &mut KubeRsCache, recorder: &mut Recorder) -> anyhow::Result<()> {
    let keys: Vec<_> = corpus::shuffled(theirs.objects).map(reference).collect();
    let found =
        recorder.time(|| keys.iter().filter(|key| black_box(theirs.store.get(key)).is_some()).count());
    anyhow::ensure!(found == keys.len(), "all are there");
    Ok(())
}

pub(crate) fn list(theirs: &mut KubeRsCache, recorder: &mut Recorder) -> anyhow::Result<()> {
    let all = recorder.time(|| theirs.store.state());
    anyhow::ensure!(all.len() == theirs.objects, "all are there");
    Ok(())
}

/// Finds objects without an index, by a scan of all.
pub(crate) fn scan(
    theirs: &mut KubeRsCache,
    recorder: &mut Recorder,
    times: usize,
    is_meant: impl Fn(&Pod, usize) -> bool,
) -> anyhow::Result<()> {
    let find = |n: usize| {
        let all: Vec<Arc<Pod>> = theirs.store.state().into_iter().filter(|pod| is_meant(pod, n)).collect();
        black_box(all).len()
    };
    let found = recorder.time(|| (0..times).map(find).sum::<usize>());
    anyhow::ensure!(found == times * 1_000, "a thousand each: {found}");
    Ok(())
}
