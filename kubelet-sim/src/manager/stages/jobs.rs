//! [`Jobs`]: which stage each object of a kind follows, and when it is played. Synchronous: time is an argument.

use super::object::StageObject;
use crate::image::hash;
use crate::limits::{STAGE_RATE, STAGE_WINDOW};
use crate::manager::timers::Timers;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::{Key, Object as _, Revision};
use kstore_kwok::{Kind, Lifecycle, StageSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Wait before the first repetition of a step; it doubles with each.
const RETRY: Duration = Duration::from_secs(1);
/// Longest wait before a repetition.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A stage that an object follows, and from which step on.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) object: Arc<StageObject>,
    pub(super) stage: usize,
    pub(super) step: usize,
    pub(super) retries: u32,
}

/// How a play ended.
#[derive(Debug)]
pub(super) enum Played {
    /// All steps are done; the object after the last patch, if there was one.
    Done(Option<StageObject>),
    /// A step is to be repeated.
    Repeat { step: usize },
    /// A step is impossible.
    Failed,
}

/// How many stages an object has played since a time.
struct RecentPlays {
    since: Timestamp,
    count: u32,
}

impl RecentPlays {
    fn add(&mut self, now: Timestamp) {
        if now >= later(self.since, STAGE_WINDOW) {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
    }

    /// When the object may play its next stage, if that is later than `now`.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let end = later(self.since, STAGE_WINDOW);
        (self.count >= STAGE_RATE && now < end).then_some(end)
    }
}

/// The objects of a kind and their jobs.
pub(super) struct Jobs {
    kind: Kind,
    stages: Arc<StageSet>,
    seed: u64,
    objects: BTreeMap<Key, Arc<StageObject>>,
    waiting: BTreeMap<Key, Job>,
    timers: Timers<Key>,
    /// The stages that objects have played lately.
    recent: BTreeMap<Key, RecentPlays>,
    /// Whether the log has been told of an object whose selectors take too much work, which would say so at each of its events.
    has_told: bool,
    /// Objects whose stages are being played; what happens to them is considered afterwards.
    playing: BTreeMap<Key, Arc<str>>,
}

impl Jobs {
    pub(super) fn new(kind: Kind, stages: Arc<StageSet>, seed: u64) -> Self {
        Self {
            kind,
            stages,
            seed,
            objects: BTreeMap::new(),
            waiting: BTreeMap::new(),
            timers: Timers::new(),
            recent: BTreeMap::new(),
            has_told: false,
            playing: BTreeMap::new(),
        }
    }

    pub(super) fn lifecycle(&self) -> Option<&Lifecycle> {
        self.stages.lifecycle(&self.kind)
    }

    /// Takes a new state of an object.
    pub(super) fn observe<T>(
        &mut self,
        object: Arc<StageObject>,
        nodes: &BTreeMap<String, T>,
        now: Timestamp,
    ) {
        let key = object.key();
        let is_older =
            |known: &Arc<StageObject>| known.uid() == object.uid() && known.revision() > object.revision();
        if self.objects.get(&key).is_some_and(is_older) {
            return;
        }
        self.objects.insert(key.clone(), object);
        self.consider(&key, nodes, now);
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.objects.remove(key);
        self.recent.remove(key);
        self.cancel(key);
    }

    fn cancel(&mut self, key: &Key) {
        self.waiting.remove(key);
        self.timers.set(key, None);
    }

    /// Chooses the stage of an object, unless its state is the one for which a stage was chosen.
    fn consider<T>(&mut self, key: &Key, nodes: &BTreeMap<String, T>, now: Timestamp) {
        let Some(object) = self.objects.get(key).cloned() else { return };
        if self.playing.contains_key(key) {
            return;
        }
        if !object.is_played(&self.kind, nodes) {
            return self.cancel(key);
        }
        let is_same =
            |job: &Job| job.object.uid() == object.uid() && job.object.revision() == object.revision();
        if self.waiting.get(key).is_some_and(is_same) {
            return;
        }
        let revision = object.revision().0.to_string();
        let draw = |purpose: &str| hash(self.seed, &[purpose, object.uid(), &revision]);
        let lifecycle = self.stages.lifecycle(&self.kind);
        let chosen = lifecycle.map(|lifecycle| lifecycle.choose(object.value(), draw("stage")));
        let stage = match chosen {
            Some(Ok(stage)) => stage,
            Some(Err(problem)) if !self.has_told => {
                self.has_told = true;
                tracing::warn!(object = %key, kind = %self.kind, "{problem}; other objects may do so, too");
                None
            }
            Some(Err(_)) | None => None,
        };
        let delay = lifecycle.zip(stage).and_then(|(lifecycle, stage)| {
            Some((stage, lifecycle.stage(stage)?.delay(object.value(), now, draw("delay"))))
        });
        let Some((stage, delay)) = delay else { return self.cancel(key) };
        self.waiting.insert(key.clone(), Job { object, stage, step: 0, retries: 0 });
        let earliest = self.recent.get(key).and_then(|plays| plays.next(now));
        self.timers.set(key, Some(later(now, delay).max(earliest.unwrap_or(now))));
    }

    /// Considers the objects whose node is in one of the two sets of nodes alone.
    pub(super) fn change_nodes<T: PartialEq>(
        &mut self,
        before: &BTreeMap<String, T>,
        after: &BTreeMap<String, T>,
        now: Timestamp,
    ) {
        if !(self.kind.is_pod() || self.kind.is_node()) || before.keys().eq(after.keys()) {
            return;
        }
        let differs = |object: &Arc<StageObject>| {
            object.is_played(&self.kind, before) != object.is_played(&self.kind, after)
        };
        let changed = self.objects.iter().filter(|(_, object)| differs(object));
        let keys: Vec<Key> = changed.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.consider(&key, after, now);
        }
    }

    /// The next job that is due.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Job> {
        while let Some(key) = self.timers.take_due(now) {
            if let Some(job) = self.waiting.remove(&key) {
                self.recent.entry(key.clone()).or_insert(RecentPlays { since: now, count: 0 }).add(now);
                self.playing.insert(key, job.object.uid().into());
                return Some(job);
            }
        }
        None
    }

    /// When the next job is due.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Takes the end of a play. The next stage follows from the newest state, as soon as that shows what the play wrote.
    pub(super) fn played<T>(
        &mut self,
        job: Job,
        played: Played,
        nodes: &BTreeMap<String, T>,
        now: Timestamp,
    ) {
        let key = job.object.key();
        self.playing.remove(&key);
        let base = job.object.revision();
        let newest = |jobs: &Self| {
            let known = jobs.objects.get(&key).filter(|known| known.uid() == job.object.uid());
            known.map_or(Revision(0), |known| known.revision())
        };
        match played {
            Played::Repeat { step } => {
                if self.objects.get(&key).is_some_and(|known| known.uid() == job.object.uid()) {
                    let wait = RETRY.saturating_mul(1 << job.retries.min(5)).min(RETRY_MAX);
                    let retries = job.retries.saturating_add(1);
                    self.waiting.insert(key.clone(), Job { step, retries, ..job });
                    self.timers.set(&key, Some(later(now, wait)));
                    return;
                }
            }
            Played::Done(Some(written)) => {
                let is_immediate = self.lifecycle().and_then(|all| all.stage(job.stage));
                let is_immediate = is_immediate.is_some_and(kstore_kwok::Stage::is_immediate);
                let known = newest(self);
                if known < written.revision() {
                    // Otherwise the watch will show it.
                    if is_immediate && known > Revision(0) {
                        self.observe(Arc::new(written), nodes, now);
                    }
                    return;
                }
            }
            Played::Done(None) | Played::Failed => {}
        }
        // A state that the stage was chosen for does not get it again: only what has changed since is considered.
        let is_other = self.objects.get(&key).is_some_and(|known| known.uid() != job.object.uid());
        if is_other || newest(self) > base {
            self.consider(&key, nodes, now);
        }
    }
}
