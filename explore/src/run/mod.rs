//! Runs: a cluster is prepared once and becomes an image; each run is a fork of it, in which the operators start, the steps are taken, and
//! the cluster comes to rest. What happened is a [`RunRecord`].

mod collect;
mod converge;
mod inject;
mod operators;
mod prepare;
mod steps;

use crate::normalise::Normaliser;
use crate::oracle::Reference;
use crate::plan::Plan;
use crate::record::{ObjectKey, RunEnd, RunRecord};
use crate::scenario::{ObjectRef, Scenario};
use crate::sources::Sources;
use futures::future::BoxFuture;
use kstore_api::status::Status;
use kstore_lab::cluster::{Current, LabCluster, LabImage};
use kstore_lab::legality::observed::Observed;
use kstore_lab::snapshot::{self, SaveError, SaveOptions};
use kstore_lab::{FrontProxyKeys, Lab, ReportText, report_file};
use kstore_nondet::Clock;
use operators::StartedOperators;
pub use prepare::{PrepareError, Setup};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Real time that every run may take, so that a busy machine fails none.
const SHORTEST: Duration = Duration::from_secs(30);

/// User agent of the scenario's steps, and the name of their client in records.
pub const USER: &str = "explore-user";

/// A prepared cluster from which runs start.
pub struct PreparedLab {
    lab: Arc<Lab>,
    image: Arc<LabImage>,
    scenario: Scenario,
    sources: Sources,
    /// Folder in which relative commands are looked for.
    folder: PathBuf,
    /// Command of operators that have none.
    command: Vec<String>,
    /// With which the cluster reaches API servers of operators, if its scenario has Services.
    front_proxy: Option<Arc<FrontProxyKeys>>,
    /// Folder in which each run gets an empty folder.
    scratch: tempfile::TempDir,
}

impl std::fmt::Debug for PreparedLab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedLab").field("scenario", &self.scenario.name).finish_non_exhaustive()
    }
}

/// How long a run may take, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// The whole run.
    pub total: Duration,
    /// Without any write: then what is there is the end state.
    pub silence: Duration,
}

impl RunLimits {
    /// Limits of the first reference: no run has been measured before it.
    pub const FIRST: Self = Self { total: Duration::from_secs(120), silence: Duration::from_secs(2) };

    /// Limits of a run by the longest reference and the longest pause between its writes.
    pub fn after(references: &[RunRecord]) -> Self {
        let longest = |of: fn(&RunRecord) -> u64| references.iter().map(of).max().unwrap_or(0);
        let total = Duration::from_millis(4 * longest(|record| record.took));
        let silence = Duration::from_millis(5 * longest(|record| record.longest_pause));
        Self {
            total: total.clamp(SHORTEST, Duration::from_secs(600)),
            silence: silence.clamp(Duration::from_secs(2), Duration::from_secs(60)),
        }
    }
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest<'r> {
    /// The plan; `None`: nothing is perturbed.
    pub plan: Option<&'r Plan>,
    /// Seed of the cluster's own random values; `None`: that of the image.
    pub seed: Option<u64>,
    /// Steps that are taken.
    pub steps: usize,
    /// Whether the operators are restarted in order at a quiet moment after the first step.
    pub is_restarted: bool,
    /// Whether cluster and operators stay after the run.
    pub is_held: bool,
    /// References, for the moment at which the run has converged.
    pub comparison: Option<(&'r Normaliser, &'r [Reference])>,
    /// Limits.
    pub limits: RunLimits,
    /// What a report file of the run says; `None`: there is none.
    pub report: Option<&'r ReportText>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The record.
    pub record: RunRecord,
    /// The first action of the plan that did not happen, and why: the run gives no verdict.
    pub missed: Option<String>,
    /// Programs that ever listed with `resourceVersion=0`.
    pub lists_from_cache: Vec<String>,
    /// The ends of the programs' outputs.
    pub outputs: Vec<(String, String)>,
    /// The requests of clients and the states that they were shown.
    pub observed: Observed,
    /// The report file of the cluster at the end of the run, or why there is none. It has the writes of the run.
    pub report: Option<Result<Vec<u8>, String>>,
    /// The run, if it stays.
    pub held: Option<HeldRun>,
}

/// A run whose cluster and operators stay until the lab ends. The cluster's time stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRun {
    /// Kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// Files with the outputs of the operators, by name.
    pub outputs: Vec<(String, PathBuf)>,
}

/// A run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lab refused something.
    #[error("{what}: {}", status.message)]
    Lab {
        /// What was done.
        what: &'static str,
        /// The refusal.
        status: Box<Status>,
    },
    /// An operator does not start, or is not ready.
    #[error("operator {name} {problem}")]
    Operator {
        /// Its name.
        name: String,
        /// What is wrong, with the end of its output.
        problem: String,
    },
    /// A folder or port for the run cannot be made.
    #[error("cannot prepare a run: {0}")]
    Io(#[from] std::io::Error),
}

impl RunError {
    pub(crate) fn lab(what: &'static str) -> impl FnOnce(Status) -> Self {
        move |status| Self::Lab { what, status: Box::new(status) }
    }
}

/// A run under way.
struct ActiveRun<'p> {
    prepared: &'p PreparedLab,
    cluster: Arc<LabCluster>,
    current: Current,
    /// Real time of its begin.
    began: jiff::Timestamp,
    limits: RunLimits,
    operators: StartedOperators,
    /// The plan of the run.
    injected: Option<inject::InjectedPlan>,
    /// Whether the plan ends programs itself.
    ends_programs: bool,
    /// The UIDs of the objects that steps deleted.
    deleted: BTreeMap<ObjectRef, String>,
    /// Empty folder of the run.
    folder: PathBuf,
}

impl ActiveRun<'_> {
    /// Real time since the begin.
    fn elapsed(&self) -> Duration {
        Clock::real().now().duration_since(self.began).try_into().unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.elapsed() >= self.limits.total
    }

    /// The report file of the cluster, or why there is none.
    async fn report_file(&self, text: ReportText) -> Result<Vec<u8>, String> {
        report_file(self.current.running(), text).await.map_err(|error| error.to_string())
    }
}

impl PreparedLab {
    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The scenario's files.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Objects that the steps apply.
    pub fn applied_objects(&self) -> Vec<ObjectKey> {
        let kinds = self.image_kinds();
        let objects = self.sources.applied.values().flatten();
        let key = |object: &kstore_client::manifest::ManifestObject| {
            let (group, _) = object.api_version().split_once('/').unwrap_or(("", ""));
            let (resource, is_namespaced) = kinds.get(&(group.to_owned(), object.kind().to_owned()))?.clone();
            let namespace = match (is_namespaced, object.namespace()) {
                (false, _) => "",
                (true, "") => "default",
                (true, namespace) => namespace,
            };
            Some(ObjectKey { resource, namespace: namespace.to_owned(), name: object.name().to_owned() })
        };
        objects.filter_map(key).collect()
    }

    /// Resources of the custom kinds that were prepared, by group and kind, and whether they are namespaced.
    fn image_kinds(&self) -> BTreeMap<(String, String), (String, bool)> {
        let definitions = self.sources.prepared.iter().filter(|object| object.is_definition());
        let kind = |object: &kstore_client::manifest::ManifestObject| {
            let spec = &object.value["spec"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
            let resource = format!("{}.{group}", text(&spec["names"]["plural"]));
            ((group, kind), (resource, spec["scope"] == "Namespaced"))
        };
        definitions.map(kind).collect()
    }

    /// Names of the operators.
    pub fn programs(&self) -> Vec<String> {
        self.scenario.operators.iter().map(|operator| operator.name.clone()).collect()
    }

    /// The users of the operators, each with the name of its operator. One that several operators have is left out.
    fn users(&self) -> BTreeMap<String, String> {
        let mut users = BTreeMap::new();
        let mut shared = Vec::new();
        for operator in &self.scenario.operators {
            let user = operator.user();
            if users.insert(user.clone(), operator.name.clone()).is_some() {
                shared.push(user);
            }
        }
        shared.iter().for_each(|user| drop(users.remove(user)));
        users
    }

    /// Takes a run. Its cluster and programs end with it.
    ///
    /// # Errors
    /// See [`RunError`].
    /// Boxed here, so that no crate above generates the code again.
    pub fn run<'a>(&'a self, request: &'a RunRequest<'a>) -> BoxFuture<'a, Result<RunOutcome, RunError>> {
        Box::pin(async move {
            let options =
                kstore_lab::StartOptions { seed: request.seed, ..kstore_lab::StartOptions::default() };
            let started = self.lab.start_from(&self.image, "image prepared".to_owned(), options).await;
            let cluster = started.map_err(RunError::lab("cannot start a fork"))?;
            let folder = tempfile::tempdir_in(self.scratch.path())?;
            let outcome = self.run_on(&cluster, folder.path().to_owned(), request).await;
            if request.is_held && outcome.is_ok() {
                // The folder of all runs has it.
                let _ = folder.keep();
                return outcome;
            }
            let ended = self.lab.end_cluster(&cluster.config.id).await;
            ended.map_err(RunError::lab("cannot end a fork"))?;
            outcome
        })
    }

    async fn run_on(
        &self,
        cluster: &Arc<LabCluster>,
        folder: PathBuf,
        request: &RunRequest<'_>,
    ) -> Result<RunOutcome, RunError> {
        let current = cluster.current().map_err(RunError::lab("the fork has ended"))?;
        let began = Clock::real().now();
        let initial = collect::state(&current);
        current.bridge.shown.keep(current.running());
        let image = current.running().store().revision().0;
        let operators = StartedOperators::default();
        let (limits, cluster) = (request.limits, cluster.clone());
        let ends_programs = request.plan.is_some_and(Plan::ends_programs);
        let mut run = ActiveRun {
            prepared: self,
            cluster,
            current,
            began,
            limits,
            operators,
            injected: None,
            ends_programs,
            deleted: BTreeMap::new(),
            folder,
        };
        run.begin_order(request.plan)?;
        if let Some(plan) = request.plan {
            run.inject(plan)?;
        }
        let steps = match run.start_operators().await? {
            None => run.take_steps(request).await?,
            Some(end) => (Vec::new(), Some(end)),
        };
        let steps_done = run.current.running().store().revision().0;
        let (ended, is_late) = match steps.1 {
            Some(end) => (end, false),
            None => run.converge(request).await?,
        };
        let (outputs, lists_from_cache) = (run.outputs(), run.lists_from_cache());
        let traffic = collect::traffic(&run.current, image, run.began, &self.users()).await?;
        let observed = collect::observed(&run.current).await?;
        let (exits, missed, faults) = (run.exits(), run.missed(), run.fired());
        let (turns, unquiet) = (run.order().position(), run.order().unquiet());
        run.end_plan();
        let longest_pause = collect::longest_pause(&traffic.1);
        let record = RunRecord {
            initial,
            requests: traffic.0,
            writes: traffic.1,
            steps: steps.0,
            end: collect::state(&run.current),
            ended,
            exits,
            is_late,
            steps_done,
            took: u64::try_from(run.elapsed().as_millis()).unwrap_or(u64::MAX),
            longest_pause,
            turns,
            unquiet,
        };
        let report = match request.report {
            Some(text) => {
                let text =
                    ReportText { since: Some(image), faults, steps: steps_of(&record), ..text.clone() };
                Some(run.report_file(text).await)
            }
            None => None,
        };
        let held = if request.is_held { Some(run.hold()?) } else { None };
        if held.is_none() {
            run.stop_operators().await;
        }
        Ok(RunOutcome { record, missed, lists_from_cache, outputs, observed, report, held })
    }

    /// The prepared cluster as a snapshot file without a name: its newest objects, Secrets among them, without keys.
    ///
    /// # Errors
    /// See [`SaveError`].
    pub fn snapshot<'a>(&'a self) -> BoxFuture<'a, Result<File, SaveError>> {
        Box::pin(
            async move { snapshot::save(&self.image, SaveOptions { keys: false, history: false }).await },
        )
    }

    /// Ends all clusters.
    pub fn end(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.lab.end().await;
        })
    }
}

/// Where the steps of a run begin, for the marks of its report.
fn steps_of(record: &RunRecord) -> Vec<(i64, String)> {
    record.steps.iter().map(|step| (step.begin, format!("step {}", step.name))).collect()
}

/// Steps as they went, and the end of the run if one of them ended it.
type Steps = (Vec<crate::record::RecordedStep>, Option<RunEnd>);
