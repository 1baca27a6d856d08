//! Metrics of a queue in a [`Registry`], with client-go's names. `metrics` counts them.

use std::{
    hash::Hash,
    sync::{Arc, Weak},
};

use super::{Inner, Queue};
use crate::metrics::{Collect, Metric, Page, Registry};

const DEPTH: Metric = Metric::gauge("workqueue_depth", "Current depth of the queue");
const ADDS: Metric = Metric::counter("workqueue_adds_total", "Total number of adds handled by the queue");
const READY: Metric = Metric::histogram(
    "workqueue_queue_duration_seconds",
    "How long keys stayed in the queue before they ran",
);
const WORK: Metric = Metric::histogram("workqueue_work_duration_seconds", "Duration of reconciles");
const UNFINISHED: Metric = Metric::gauge(
    "workqueue_unfinished_work_seconds",
    "Seconds of work in progress that is not yet in work_duration",
);
const LONGEST: Metric = Metric::gauge(
    "workqueue_longest_running_processor_seconds",
    "Seconds that the longest running worker has been running",
);
const RETRIES: Metric =
    Metric::counter("workqueue_retries_total", "Total number of retries handled by the queue");

impl<K: Ord + Hash + Clone + Send + 'static> Queue<K> {
    /// Exposes the queue's metrics in `registry` as long as a handle to the queue exists.
    pub fn show_in(&self, registry: &Registry) {
        let inner: Weak<Inner<K>> = Arc::downgrade(&self.0);
        registry.add(inner);
    }
}

impl<K: Ord + Hash + Clone + Send> Collect for Inner<K> {
    fn collect(&self, into: &mut Page) {
        let figures = self.change(|state, now| state.metrics(self.name.clone(), now));
        let labels = [("name", &*self.name)];
        into.add(&DEPTH, &labels, figures.stats.ready as f64);
        into.add(&ADDS, &labels, figures.stats.entered() as f64);
        into.add(&RETRIES, &labels, figures.stats.retries as f64);
        into.add(&UNFINISHED, &labels, figures.unfinished_work.as_secs_f64());
        into.highest(&LONGEST, &labels, figures.longest_running.as_secs_f64());
        into.distribution(&READY, &labels, &figures.queue_duration);
        into.distribution(&WORK, &labels, &figures.work_duration);
    }
}
