//! kstore's side: a whole informer over a source that sends prepared messages.

use super::corpus::Generated;
use super::rounds::Recorder;
use super::{BATCH, LOOK_UPS, corpus};
use crate::feed::{Feed, Item};
use anyhow::Context;
use kstore_informer::{Builder, Frame, Index, Informer, Object, Revision, SourceError, Subscription};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An informer with one index, and the senders of its source.
pub(crate) struct KstoreCache<T: Object> {
    pub(crate) runtime: Runtime,
    pub(crate) informer: Informer<T>,
    pub(crate) by_node: Index<T, Box<str>>,
    pub(crate) subscription: Subscription<T>,
    pub(crate) senders: VecDeque<mpsc::Sender<Item<T>>>,
    pub(crate) revision: u64,
    pub(crate) objects: usize,
    _stop: tokio_util::sync::DropGuard,
}

/// A full informer that is created on first use and kept.
pub(crate) type Lazy<T> = Rc<RefCell<Option<KstoreCache<T>>>>;

pub(crate) fn lazy<T: Object>() -> Lazy<T> {
    Rc::default()
}

/// All objects as the messages of an initial state, generated lazily.
pub(crate) fn initial_frames<T: Generated>(objects: usize) -> impl Iterator<Item = Vec<Frame<T>>> {
    (1..=objects).step_by(BATCH).map(move |first| {
        let batch = first..(first + BATCH).min(objects + 1);
        batch.map(|revision| Frame::Put(T::generate(revision - 1, revision as u64))).collect()
    })
}

fn initial_done<T>(objects: usize) -> Frame<T> {
    Frame::Progress { revision: Revision(objects as u64), initial_done: true }
}

impl<T: Generated> KstoreCache<T> {
    pub(crate) fn empty(streams: usize) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (feed, senders) = Feed::new(streams);
        let (stop, by_node) = (CancellationToken::new(), corpus::by_node());
        let _guard = runtime.enter();
        let informer = Builder::new(feed).name("bench").index(&by_node).spawn(&stop);
        let subscription = informer.subscribe();
        drop(_guard);
        let (senders, _stop) = (senders.into(), stop.drop_guard());
        Ok(Self { runtime, informer, by_node, subscription, senders, revision: 0, objects: 0, _stop })
    }

    pub(crate) fn full(objects: usize) -> anyhow::Result<Self> {
        let mut ours = Self::empty(1)?;
        ours.load(initial_frames(objects), objects)?;
        Ok(ours)
    }

    /// Loads an initial state into the cache and the subscriber.
    pub(crate) fn load(
        &mut self,
        batches: impl IntoIterator<Item = Vec<Frame<T>>>,
        objects: usize,
    ) -> anyhow::Result<()> {
        let sender = &self.senders[0];
        self.runtime.block_on(async {
            for batch in batches {
                sender.send(Ok(batch)).await.ok().context("the informer runs")?;
            }
            sender.send(Ok(vec![initial_done(objects)])).await.ok().context("the informer runs")?;
            self.informer.synced().await?;
            anyhow::ensure!(self.subscription.try_next().len() == objects, "all objects are delivered");
            anyhow::Ok(())
        })?;
        (self.revision, self.objects) = (objects as u64, objects);
        Ok(())
    }

    /// Messages that change random objects.
    pub(crate) fn changes(&mut self, count: usize) -> Vec<Vec<Frame<T>>> {
        let numbers: Vec<usize> = corpus::shuffled(self.objects).cycle().take(count).collect();
        let batches = numbers.chunks(BATCH).map(|numbers| {
            let put = |number: &usize| {
                self.revision += 1;
                Frame::Put(T::generate(*number, self.revision))
            };
            numbers.iter().map(put).collect()
        });
        batches.collect()
    }

    /// Feeds messages into the cache one by one, with a callback after each.
    pub(crate) fn feed(
        &mut self,
        batches: Vec<Vec<Frame<T>>>,
        mut after: impl FnMut(&Informer<T>, &mut Subscription<T>),
    ) -> anyhow::Result<()> {
        let (sender, informer, subscription) = (&self.senders[0], &self.informer, &mut self.subscription);
        self.runtime.block_on(async {
            for batch in batches {
                let last = batch.last().map(Frame::revision).unwrap_or_default();
                sender.send(Ok(batch)).await.ok().context("the informer runs")?;
                informer.wait_for(last).await?;
                after(informer, subscription);
            }
            anyhow::Ok(())
        })
    }
}

/// Runs `work` with an informer of this many objects.
pub(crate) fn with<T: Generated, R>(
    lazy: &Lazy<T>,
    objects: usize,
    work: impl FnOnce(&mut KstoreCache<T>) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let mut ours = lazy.borrow_mut();
    if ours.is_none() {
        *ours = Some(KstoreCache::full(objects)?);
    }
    work(ours.as_mut().context("the cache was created")?)
}

/// Measures from the first frame until a subscriber has everything.
pub(crate) fn initial<T: Generated>(recorder: &mut Recorder, objects: usize) -> anyhow::Result<()> {
    let (mut ours, batches) = (KstoreCache::<T>::empty(1)?, initial_frames(objects).collect::<Vec<_>>());
    recorder.time(|| ours.load(batches, objects))
}

/// Measures from the first frame until a subscriber has every change. If requested, a view is taken after
/// each message and kept until the next.
pub(crate) fn updates<T: Generated>(
    ours: &mut KstoreCache<T>,
    recorder: &mut Recorder,
    count: usize,
    views: bool,
) -> anyhow::Result<()> {
    let batches = ours.changes(count);
    let (mut view, mut delivered) = (None, 0);
    recorder.time(|| {
        ours.feed(batches, |informer, subscription| {
            delivered += subscription.try_next().len();
            view = views.then(|| informer.view());
        })
    })?;
    anyhow::ensure!(delivered == count, "every change is delivered");
    Ok(())
}

/// Measures changes with subscribers that read nothing.
pub(crate) fn stuck<T: Generated>(
    ours: &mut KstoreCache<T>,
    recorder: &mut Recorder,
    count: usize,
    subscribers: usize,
) -> anyhow::Result<()> {
    let mut stuck: Vec<_> = (0..subscribers).map(|_| ours.informer.subscribe()).collect();
    for subscription in &mut stuck {
        subscription.try_next();
    }
    let batches = ours.changes(count);
    ours.subscription.try_next();
    recorder.time(|| ours.feed(batches, |_, _| {}))?;
    ours.subscription.try_next();
    Ok(())
}

/// Measures changes with tasks that read everything, until all have read the last one.
pub(crate) fn reading<T: Generated>(
    ours: &mut KstoreCache<T>,
    recorder: &mut Recorder,
    count: usize,
    tasks: usize,
) -> anyhow::Result<()> {
    let batches = ours.changes(count);
    let last = Revision(ours.revision);
    let runtime = ours.runtime.handle().clone();
    let mut running = Vec::new();
    for _ in 0..tasks {
        let mut subscription = ours.informer.subscribe();
        subscription.try_next();
        running.push(runtime.spawn(async move {
            let mut delivered = 0;
            while let Some(deltas) = subscription.next().await {
                delivered += deltas.len();
                if deltas.iter().any(|delta| delta.object().revision() >= last) {
                    break;
                }
            }
            delivered
        }));
    }
    let delivered = recorder.time(|| {
        ours.feed(batches, |_, _| {})?;
        ours.runtime.block_on(async {
            let mut delivered = 0;
            for task in running {
                delivered += task.await?;
            }
            anyhow::Ok(delivered)
        })
    })?;
    // A late task gets several changes of a key as one event.
    anyhow::ensure!(delivered >= ours.objects * tasks, "every task receives every object: {delivered}");
    ours.subscription.try_next();
    Ok(())
}

/// Measures a second full state equal to the cached one; the subscriber gets no event.
pub(crate) fn relist<T: Generated>(recorder: &mut Recorder, objects: usize) -> anyhow::Result<()> {
    let mut ours = KstoreCache::<T>::empty(2)?;
    ours.load(initial_frames(objects), objects)?;
    let batches: Vec<_> = initial_frames(objects).collect();
    let delivered = recorder.time(|| ours.relist(batches))?;
    anyhow::ensure!(delivered == 0, "unchanged objects cause no events");
    Ok(())
}

impl<T: Generated> KstoreCache<T> {
    /// Expires the stream and sends all objects again. Returns the number of events.
    pub(crate) fn relist(
        &mut self,
        batches: impl IntoIterator<Item = Vec<Frame<T>>>,
    ) -> anyhow::Result<usize> {
        let first = self.senders.pop_front().context("there is a stream")?;
        self.revision += 1;
        let done = Revision(self.revision);
        let second = self.senders.front().context("there is a second stream")?;
        self.runtime.block_on(async {
            first.send(Err(SourceError::Expired)).await.ok().context("the informer runs")?;
            for batch in batches {
                second.send(Ok(batch)).await.ok().context("the informer runs")?;
            }
            let done_frame = Frame::Progress { revision: done, initial_done: true };
            second.send(Ok(vec![done_frame])).await.ok().context("the informer runs")?;
            self.informer.wait_for(done).await?;
            anyhow::Ok(())
        })?;
        Ok(self.subscription.try_next().len())
    }
}

pub(crate) fn get<T: Generated>(ours: &mut KstoreCache<T>, recorder: &mut Recorder) -> anyhow::Result<()> {
    let keys: Vec<_> = corpus::shuffled(ours.objects).map(corpus::key).collect();
    let found =
        recorder.time(|| keys.iter().filter(|key| black_box(ours.informer.get(key)).is_some()).count());
    anyhow::ensure!(found == keys.len(), "all are there");
    Ok(())
}

pub(crate) fn get_from_view<T: Generated>(
    ours: &mut KstoreCache<T>,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let keys: Vec<_> = corpus::shuffled(ours.objects).map(corpus::key).collect();
    let view = ours.informer.view();
    let found = recorder.time(|| keys.iter().filter(|key| black_box(view.get(key)).is_some()).count());
    anyhow::ensure!(found == keys.len(), "all are there");
    Ok(())
}

pub(crate) fn view<T: Generated>(ours: &mut KstoreCache<T>, recorder: &mut Recorder) -> anyhow::Result<()> {
    recorder.time(|| (0..ours.objects).for_each(|_| drop(black_box(ours.informer.view()))));
    Ok(())
}

pub(crate) fn list<T: Generated>(ours: &mut KstoreCache<T>, recorder: &mut Recorder) -> anyhow::Result<()> {
    let all = recorder.time(|| ours.informer.list());
    anyhow::ensure!(all.len() == ours.objects, "all are there");
    Ok(())
}

pub(crate) fn namespaces<T: Generated>(
    ours: &mut KstoreCache<T>,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let names: Vec<_> = (0..LOOK_UPS).map(|n| corpus::namespace(n * corpus::PER_NAMESPACE)).collect();
    look_up(recorder, names, |name| ours.informer.namespace(name))
}

pub(crate) fn nodes<T: Generated>(ours: &mut KstoreCache<T>, recorder: &mut Recorder) -> anyhow::Result<()> {
    let names = (0..LOOK_UPS).map(corpus::node).collect();
    look_up(recorder, names, |name| ours.informer.by(&ours.by_node, name))
}

/// Looks up several keys of an index, each with a thousand objects.
fn look_up<T>(
    recorder: &mut Recorder,
    what: Vec<String>,
    find: impl Fn(&str) -> Vec<Arc<T>>,
) -> anyhow::Result<()> {
    let found = recorder.time(|| what.iter().map(|what| black_box(find(what)).len()).sum::<usize>());
    anyhow::ensure!(found == what.len() * 1_000, "a thousand each: {found}");
    Ok(())
}
