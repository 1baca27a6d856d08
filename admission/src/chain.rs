//! [`Chain`]: the enabled plugins of one API server, in their order, with what they remember between requests.

use crate::configured::ConfiguredPlugins;
use crate::dynamic::ReviewingPlugins;
use crate::metrics::AdmissionMetrics;
use crate::plugin::{Body, Phase, Plugin, Review, Row, Unstored};
use crate::registered::PluginSwitches;
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::quota::LimitedResource;
use kstore_api::resource::Resource;
use kstore_registry::undecided::Undecided;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An enabled plugin, with its configuration.
pub(super) struct RunningPlugin {
    pub(super) row: &'static Row,
    pub(super) plugin: Arc<dyn Plugin>,
}

/// The enabled plugins in the order in which they run.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) plugins: Vec<RunningPlugin>,
    /// The places of the plugins that run in each [`Phase`]; most run in one.
    by_phase: [Vec<usize>; Phase::ALL.len()],
    /// Whether new objects may wait for initializers.
    pub(super) initializes: bool,
    /// Whether plugins may require other objects for new objects.
    pub(super) prepares: bool,
    /// The rows of plugins that may wait for a server.
    waiting: Vec<&'static Row>,
}

impl Chain {
    /// The plugins that these switches enable.
    pub(super) fn new(switches: &PluginSwitches, configured: &ConfiguredPlugins) -> Self {
        let running = switches.enabled_rows().map(|row| {
            let plugin = configured.get(row.name).unwrap_or_else(row.plugin);
            RunningPlugin { row, plugin }
        });
        Self::of(running.collect())
    }

    pub(super) fn of(plugins: Vec<RunningPlugin>) -> Self {
        let initializes = plugins.iter().any(|running| running.row.initializes);
        let waiting = plugins.iter().map(|running| running.row).filter(|row| row.may_wait).collect();
        let prepares = plugins.iter().any(|running| !running.row.prepares.is_empty());
        let running_in = |phase| {
            let numbered = plugins.iter().enumerate();
            numbered.filter(|(_, running)| running.row.runs_in(phase)).map(|(place, _)| place).collect()
        };
        let by_phase = Phase::ALL.map(running_in);
        Self { plugins, by_phase, initializes, prepares, waiting }
    }

    /// The kinds whose objects need a quota that covers them; `None` if quotas are not charged.
    pub(super) fn limited_resources(&self) -> Option<Arc<[LimitedResource]>> {
        self.plugins.iter().find_map(|running| running.plugin.limited_resources())
    }

    /// The plugins that run in a phase of such requests.
    pub(super) fn reviewing<'a>(
        &'a self,
        phase: Phase,
        subject: &'a Subject<'a>,
    ) -> impl Iterator<Item = &'a RunningPlugin> {
        let running = self.by_phase[phase as usize].iter().map(|place| &self.plugins[*place]);
        running.filter(move |running| running.row.reviews(phase, subject))
    }

    /// Whether plugins without stored configurations review the unstored body of such a request.
    pub(super) fn reviews_unstored(&self, subject: &Subject<'_>) -> bool {
        self.static_unstored(subject).next().is_some()
    }

    /// Whether the review of the unstored body of such a request needs the newest state of the cluster.
    pub(super) fn needs_newest(&self, subject: &Subject<'_>) -> bool {
        self.static_unstored(subject).any(|row| matches!(row.unstored, Unstored::ReviewedOnNewest(_)))
    }

    fn static_unstored<'a>(&'a self, subject: &'a Subject<'a>) -> impl Iterator<Item = &'static Row> + 'a {
        let rows = self.plugins.iter().map(|running| running.row).filter(|row| !row.is_dynamic);
        let rows = rows.filter(move |row| match row.unstored {
            Unstored::Ignored => false,
            Unstored::Reviewed => true,
            Unstored::ReviewedOnNewest(concerns) => concerns(subject),
        });
        rows.filter(|row| {
            [Phase::Mutate, Phase::Validate].into_iter().any(|phase| row.reviews(phase, subject))
        })
    }

    /// Whether the plugins without stored configurations have nothing to say about such an update if it only
    /// renews a Lease.
    pub(super) fn ignores_renewal(&self, subject: &Subject<'_>) -> bool {
        let phases = [Phase::Mutate, Phase::Complete, Phase::Validate];
        let rows = self.plugins.iter().map(|running| running.row).filter(|row| !row.is_dynamic);
        let mut reviewing = rows.filter(|row| phases.into_iter().any(|phase| row.reviews(phase, subject)));
        reviewing.all(|row| (row.ignores_renewal)(subject))
    }

    /// Runs the plugins of a phase one after the other until one refuses or waits.
    pub(super) fn run(
        &self,
        phase: Phase,
        review: &Review<'_>,
        metrics: &AdmissionMetrics,
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), Undecided>,
    ) -> Result<(), Undecided> {
        let (mut measured, began) = (None, Instant::now());
        let reviewing = self.reviewing(phase, review.subject).filter(|running| {
            let is_meant = review.body == Body::Stored || !matches!(running.row.unstored, Unstored::Ignored);
            is_meant && (!running.row.may_wait || review.calls().is_reviewed())
        });
        let count = |plugin, verdict: &Result<(), Undecided>, took: Duration| match verdict {
            // A decision that waits is repeated, and counts when it is made.
            Err(Undecided::Pending(_)) => {}
            Ok(()) | Err(Undecided::Refused(_)) => {
                metrics.count(plugin, phase.step(), review.subject.operation, verdict.is_err(), took);
            }
        };
        let mut verdict = Ok(());
        for running in reviewing {
            verdict = ask(&*running.plugin);
            if !running.row.is_dynamic {
                let (last, now) = (measured.unwrap_or(began), Instant::now());
                count(running.row.name, &verdict, now - last);
                measured = Some(now);
            }
            if verdict.is_err() {
                break;
            }
        }
        // As in `WithStepMetrics`, a decision without a plugin that reviews it counts as well.
        let is_step = matches!(phase, Phase::Mutate | Phase::Validate);
        if is_step && (review.body == Body::Stored || measured.is_some()) {
            count("", &verdict, measured.unwrap_or_else(Instant::now) - began);
        }
        verdict
    }
}

impl ReviewingPlugins for Chain {
    fn may_wait(&self, operation: Operation, resource: &Resource) -> bool {
        self.waiting.iter().any(|row| row.may_wait(operation, resource))
    }

    fn initializes(&self) -> bool {
        self.initializes
    }
}
