//! The search: references, plans, runs in parallel, confirmation and shrinking of what fails, and files of the findings.

mod budget;
mod confirm;
mod files;
mod found;
mod legality;
mod log;
mod reference;
mod replayed;
mod report_file;

use crate::explain::{Cause, cause, explain};
use crate::limits;
use crate::normalise::{NormalState, Normaliser, Volatility};
use crate::oracle::{self, Evidence, Reference, Severity, Verdict};
use crate::pattern::{self, PatternId, Traced, TracedProgram};
use crate::plan::Plan;
use crate::progress::{Phase, SharedProgress};
use crate::random::{self, Guide, Shown};
use crate::record::{ObjectKey, RunEnd, RunRecord};
use crate::report::{CaseOutcome, Finding, PlanCase, PlanCounts, Report};
use crate::run::{PreparedLab, RunError, RunLimits, RunOutcome, RunRequest};
use crate::secrets::SecretValues;
use budget::SearchBudget;
pub use files::ReplayFiles;
use found::FoundFailures;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use kstore_lab::ReportText;
use kstore_nondet::Clock;
pub use legality::IllegalRun;
use parking_lot::Mutex;
pub use reference::ReferenceError;
pub use replayed::{ReplayOptions, ReplayOutcome, replay};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

/// Whether an operator could not listen at a port that another run's has.
fn has_taken_port(output: &str) -> bool {
    output.to_ascii_lowercase().contains("address already in use")
}

/// What ends a search, and what it searches.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// First seed.
    pub seed: u64,
    /// Random plans after the enumerated ones.
    pub seeds: usize,
    /// Real time for the search.
    pub budget: Duration,
    /// Most runs of plans.
    pub runs: Option<usize>,
    /// Runs at a time.
    pub parallel: usize,
    /// Patterns.
    pub patterns: Vec<PatternId>,
    /// Most distinct findings.
    pub max_findings: usize,
    /// Folder for the files of findings.
    pub findings: PathBuf,
    /// Whether values of Secrets are shown in reports and logs.
    pub shows_secrets: bool,
    /// Where the report file of the first bug is written, those of other findings beside it; `None`: there are none.
    pub report: Option<PathBuf>,
}

/// Why a search has no report.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A run did not take place.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The references cannot be used.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// kstore showed the operator what no real API server shows.
    #[error(transparent)]
    Illegal(#[from] IllegalRun),
    /// The search was stopped before it had references.
    #[error("stopped before the references were taken")]
    Stopped,
    /// The budget ended before the references were taken.
    #[error("the budget of {0:?} ended before the references were taken: give the search more time")]
    Budget(Duration),
    /// A file of a finding cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

/// What runs are compared with.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Gives states their normal form.
    pub normaliser: Normaliser,
    /// References; those with a jitter, too.
    pub references: Vec<Reference>,
    /// Programs.
    pub programs: Vec<TracedProgram>,
    /// Limits of runs.
    pub limits: RunLimits,
}

impl Baseline {
    /// Judges a run.
    pub fn judge(&self, prepared: &PreparedLab, record: &RunRecord) -> Judgement {
        let end = self.normaliser.normalise(&record.end);
        let programs: Vec<String> = self.programs.iter().map(|program| program.name.clone()).collect();
        let evidence = Evidence {
            scenario: prepared.scenario(),
            references: &self.references,
            normaliser: &self.normaliser,
            run: record,
            end: &end,
            programs: &programs,
        };
        let verdicts = oracle::judge(&evidence);
        let explanations = [false, true].map(|ends_programs| explain(&evidence, ends_programs));
        Judgement { verdicts, explanations, cause: cause(&evidence), end }
    }
}

/// What the oracles say of a run.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Verdicts, the gravest first.
    pub verdicts: Vec<Verdict>,
    /// Explanations, without and with those of a program that died.
    explanations: [Vec<String>; 2],
    /// The first write that no reference makes, and what it was based on.
    cause: Cause,
    /// The normalised end state.
    pub end: NormalState,
}

impl Judgement {
    /// The verdicts that are no notes, the gravest first.
    fn failures(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.severity > Severity::Note)
    }

    /// Whether a verdict of the same oracle with the same difference is among them.
    fn fails_like(&self, verdict: &Verdict) -> bool {
        self.verdicts.iter().any(|other| other.key() == verdict.key())
    }
}

/// A search under way.
pub struct Search<'s> {
    prepared: &'s PreparedLab,
    options: &'s SearchOptions,
    files: &'s ReplayFiles,
    baseline: Baseline,
    began: jiff::Timestamp,
    stop: CancellationToken,
    progress: SharedProgress,
    state: Mutex<SearchState>,
    /// Shared by runs at a time; a run that must be alone has it for itself.
    turns: RwLock<()>,
    /// Whether runs must be one after the other: an operator has a fixed port.
    is_serial: AtomicBool,
    budget: SearchBudget,
}

#[derive(Debug, Default)]
struct SearchState {
    found: FoundFailures,
    cases: Vec<PlanCase>,
    counts: PlanCounts,
    /// Plans that were begun.
    begun: usize,
    /// Whether a bug has the report file that was named.
    has_report: bool,
    /// What runs showed, by the keys of their plans.
    shown: BTreeMap<String, Shown>,
    /// The first run that converged although the only action of its plan never came.
    unreached: Option<RunRecord>,
}

/// The values of Secrets that reports of a run hide.
fn secrets_of(outcome: &RunOutcome, shows_secrets: bool) -> SecretValues {
    if shows_secrets { SecretValues::shown() } else { SecretValues::of_record(&outcome.record) }
}

impl std::fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'s> Search<'s> {
    /// Searches until nothing is left to try, the budget is used up, or `stop` is cancelled.
    ///
    /// # Errors
    /// See [`SearchError`].
    ///
    /// Boxed here, so that no crate above generates the code of a search again.
    pub fn run(
        inputs: (&'s PreparedLab, &'s ReplayFiles),
        options: &'s SearchOptions,
        stop: CancellationToken,
        progress: SharedProgress,
    ) -> BoxFuture<'s, Result<Report, SearchError>> {
        Box::pin(Self::run_with(inputs, options, stop, progress))
    }

    async fn run_with(
        (prepared, files): (&'s PreparedLab, &'s ReplayFiles),
        options: &'s SearchOptions,
        stop: CancellationToken,
        progress: SharedProgress,
    ) -> Result<Report, SearchError> {
        let began = Clock::real().now();
        let referring = reference::references(prepared, options, &progress, began);
        let (baseline, without_fault) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(SearchError::Stopped),
            taken = referring => taken?,
        };
        let (state, turns, is_serial) = (Mutex::default(), RwLock::default(), AtomicBool::new(false));
        let records = baseline.references.iter().map(|reference| &reference.record);
        let budget = SearchBudget::new(options.budget, records.map(|record| record.took).max());
        let search = Search {
            prepared,
            options,
            files,
            baseline,
            began,
            stop,
            progress,
            state,
            turns,
            is_serial,
            budget,
        };
        for (verdict, outcome) in without_fault {
            search.note_without_fault(&verdict, &outcome).await?;
        }
        match search.search().await {
            // What was found is reported.
            Ok(()) | Err(SearchError::Stopped) => Ok(search.report()),
            Err(error) => Err(error),
        }
    }

    async fn search(&self) -> Result<(), SearchError> {
        let is_restless = |reference: &Reference| reference.record.ended != RunEnd::Converged;
        if self.baseline.references.iter().any(is_restless) {
            // Without an end state there is nothing to compare with.
            return Ok(());
        }
        let mut plans = self.plans();
        self.phase(Phase::Plans, plans.len());
        self.run_all(plans.clone()).await?;
        let further = self.further_plans(&plans);
        self.progress.change(|progress| progress.plans += further.len());
        self.run_all(further.clone()).await?;
        plans.extend(further);
        // While a failure was being confirmed, others failed likewise; it may have been unsteady.
        let open = std::mem::take(&mut self.state.lock().found.open);
        self.run_all(open).await?;
        self.phase(Phase::Random, self.options.seeds);
        self.guided(&plans).await
    }

    /// Runs random plans, round by round: each learns from what the runs before showed.
    async fn guided(&self, enumerated: &[Plan]) -> Result<(), SearchError> {
        let turns = self.baseline.references.iter().map(|reference| reference.record.turns).min();
        let mut guide = Guide::new(enumerated, self.options.seed, turns.unwrap_or(0));
        for reference in &self.baseline.references {
            guide.learn(None, self.shown(&reference.record));
        }
        let mut shown = std::mem::take(&mut self.state.lock().shown);
        enumerated
            .iter()
            .for_each(|plan| guide.learn(Some(plan), shown.remove(&plan.key()).unwrap_or_default()));
        let mut left = self.options.seeds;
        while left > 0 && !self.is_over(&self.state.lock()) {
            let round = guide.round(limits::ROUND.min(left));
            if round.is_empty() {
                break;
            }
            left -= round.len();
            self.run_all(round.clone()).await?;
            let mut shown = std::mem::take(&mut self.state.lock().shown);
            round
                .iter()
                .for_each(|plan| guide.learn(Some(plan), shown.remove(&plan.key()).unwrap_or_default()));
        }
        Ok(())
    }

    fn shown(&self, record: &RunRecord) -> Shown {
        let programs = self.baseline.programs.iter().map(|program| program.name.clone());
        random::shown(record, &self.baseline.normaliser, &programs.collect::<Vec<_>>())
    }

    fn elapsed(&self) -> Duration {
        Clock::real().now().duration_since(self.began).try_into().unwrap_or_default()
    }

    /// Whether no run begins any more but those that are under way.
    fn is_spent(&self) -> bool {
        self.stop.is_cancelled() || self.budget.is_spent(self.elapsed())
    }

    /// Whether no other plan may run, after what `state` says.
    fn is_over(&self, state: &SearchState) -> bool {
        self.stop.is_cancelled()
            || !self.budget.allows_plan(self.elapsed())
            || self.options.runs.is_some_and(|most| state.begun >= most)
            || state.found.findings.len() >= self.options.max_findings
    }

    /// Whether another plan may run, which is then counted.
    fn begin_plan(&self) -> bool {
        let mut state = self.state.lock();
        let is_over = self.is_over(&state);
        state.begun += usize::from(!is_over);
        !is_over
    }

    fn phase(&self, phase: Phase, plans: usize) {
        let before = self.elapsed();
        self.progress.change(|progress| {
            (progress.phase, progress.before) = (phase, before);
            (progress.plans, progress.run, progress.runs) = (plans, 0, 0);
        });
    }

    /// The enumerated plans, in order.
    fn plans(&self) -> Vec<Plan> {
        let applied = self.prepared.applied_objects();
        let traced = self.traced(&self.baseline.references, &applied);
        let (plans, pruned) = pattern::plans(&traced, &self.options.patterns);
        let mut state = self.state.lock();
        state.counts.count_made(&plans);
        state.counts.pruned = pruned;
        plans
    }

    /// Plans of a run whose only action never came, where they differ from those of the reference: that run is one without a fault. On an
    /// overloaded machine the reference may have had a write more or less than most runs, and a plan waits for an nth write.
    fn further_plans(&self, known: &[Plan]) -> Vec<Plan> {
        let Some(record) = self.state.lock().unreached.take() else { return Vec::new() };
        let (mut references, applied) = (self.baseline.references.clone(), self.prepared.applied_objects());
        references.insert(0, Reference { end: self.baseline.normaliser.normalise(&record.end), record });
        let traced = self.traced(&references, &applied);
        let plans = pattern::further_plans(&traced, &self.options.patterns, known);
        self.state.lock().counts.count_made(&plans);
        plans
    }

    fn traced<'a>(&'a self, references: &'a [Reference], applied: &'a [ObjectKey]) -> Traced<'a> {
        Traced {
            scenario: self.prepared.scenario(),
            references,
            normaliser: &self.baseline.normaliser,
            programs: &self.baseline.programs,
            applied,
        }
    }

    async fn run_all(&self, plans: Vec<Plan>) -> Result<(), SearchError> {
        let running = stream::iter(plans)
            .map(|plan| async move {
                if self.begin_plan() { Box::pin(self.try_plan(&plan)).await } else { Ok(()) }
            })
            .buffer_unordered(self.options.parallel.max(1));
        let mut running = std::pin::pin!(running);
        while let Some(result) = running.next().await {
            result?;
        }
        Ok(())
    }

    /// Runs a plan once.
    async fn outcome(&self, plan: &Plan, steps: usize) -> Result<(RunOutcome, Judgement), SearchError> {
        self.outcome_with_report(plan, steps, None).await
    }

    /// Runs a plan once, with a report file of its cluster if there is a text for it.
    async fn outcome_with_report(
        &self,
        plan: &Plan,
        steps: usize,
        report: Option<&ReportText>,
    ) -> Result<(RunOutcome, Judgement), SearchError> {
        let request = RunRequest {
            plan: (!plan.actions.is_empty()).then_some(plan),
            seed: None,
            steps,
            is_restarted: false,
            is_held: false,
            comparison: Some((&self.baseline.normaliser, &self.baseline.references)),
            limits: self.baseline.limits,
            report,
        };
        let mut outcome = self.take_run(&request, self.is_serial.load(Ordering::Relaxed)).await?;
        if self.options.parallel > 1 && outcome.outputs.iter().any(|(_, output)| has_taken_port(output)) {
            self.is_serial.store(true, Ordering::Relaxed);
            outcome = self.take_run(&request, true).await?;
        }
        let judgement = self.baseline.judge(self.prepared, &outcome.record);
        if outcome.missed.is_none() && judgement.failures().next().is_some() {
            self.check_legality(&outcome)?;
        }
        Ok((outcome, judgement))
    }

    /// Takes a run, alone or beside others, unless the search is stopped.
    async fn take_run(&self, request: &RunRequest<'_>, is_alone: bool) -> Result<RunOutcome, SearchError> {
        let running = async {
            let (_alone, _shared);
            match is_alone {
                true => _alone = self.turns.write().await,
                false => _shared = self.turns.read().await,
            }
            self.prepared.run(request).await
        };
        tokio::select! {
            biased;
            // The fork and its programs end with the lab.
            () = self.stop.cancelled() => Err(SearchError::Stopped),
            outcome = running => {
                self.progress.change(|progress| progress.runs += 1);
                Ok(outcome?)
            }
        }
    }

    fn steps(&self) -> usize {
        self.prepared.scenario().steps.len()
    }

    async fn try_plan(&self, plan: &Plan) -> Result<(), SearchError> {
        let (outcome, judgement) = self.outcome(plan, self.steps()).await?;
        let title = plan.title();
        let subject = plan.subject.clone();
        let case = |outcome| PlanCase { pattern: plan.pattern, subject, title, outcome };
        let mut failures: Vec<&Verdict> = judgement.failures().filter(|_| outcome.missed.is_none()).collect();
        if let Some(control) = plan.control().filter(|_| plan.changes_input() && !failures.is_empty()) {
            // The reference of a quick user is one that does the same at quiet moments.
            let (taken, slow) = self.outcome(&control, self.steps()).await?;
            let is_led_to = |verdict: &Verdict| taken.missed.is_none() && slow.fails_like(verdict);
            failures.retain(|verdict| verdict.oracle.needs_no_reference() || !is_led_to(verdict));
        }
        // What likewise failed before is confirmed once.
        let claimed = failures.iter().find(|verdict| self.state.lock().found.claim(verdict));
        let confirmed = match claimed {
            Some(verdict) => Some(self.confirm(plan, verdict, (&outcome, &judgement)).await?),
            None => None,
        };
        let shown = self.shown(&outcome.record);
        let mut state = self.state.lock();
        state.shown.insert(plan.key(), shown);
        let is_unreached = outcome.missed.is_some() && plan.actions.len() == 1;
        if is_unreached && state.unreached.is_none() && outcome.record.ended == RunEnd::Converged {
            state.unreached = Some(outcome.record);
        }
        let id = match confirmed {
            Some((finding, is_steady)) => state.found.keep(finding, is_steady),
            None => failures.iter().find_map(|verdict| state.found.known_id(verdict)),
        };
        if id.is_none()
            && !failures.is_empty()
            && !failures.iter().any(|verdict| state.found.is_kept(verdict))
        {
            state.found.open.push(plan.clone());
        }
        state.counts.run += 1;
        state.counts.not_reached += usize::from(outcome.missed.is_some());
        state.cases.push(case(match id {
            Some(id) => CaseOutcome::Failed(id),
            None => outcome.missed.map_or(CaseOutcome::Passed, CaseOutcome::NotReached),
        }));
        let (findings, unsteady) = (state.found.findings.len(), state.found.unsteady.len());
        drop(state);
        self.progress.change(|progress| {
            progress.run += 1;
            (progress.findings, progress.unsteady) = (findings, unsteady);
        });
        Ok(())
    }

    fn next_id(&self, prefix: &'static str) -> String {
        self.state.lock().found.next_id(prefix)
    }

    async fn note_without_fault(&self, verdict: &Verdict, outcome: &RunOutcome) -> Result<(), SearchError> {
        if !self.state.lock().found.claim(verdict) {
            return Ok(());
        }
        self.check_legality(outcome)?;
        let found_after = u64::try_from(self.elapsed().as_millis()).unwrap_or(0);
        let secrets = secrets_of(outcome, self.options.shows_secrets);
        let finding = Finding { id: self.next_id("s"), ..Finding::of(verdict, &secrets, found_after) };
        let finding = self.write_files(finding, (None, self.steps()), outcome).await?;
        let quiet = files::without_actions(None);
        let finding = Box::pin(self.with_report(finding, (&quiet, self.steps()), verdict, outcome)).await?;
        let _ = self.state.lock().found.keep(finding, true);
        Ok(())
    }

    fn report(&self) -> Report {
        let mut state = self.state.lock();
        let first = self.baseline.references.first().map(|reference| &reference.record);
        let of_programs = |client: &str| self.baseline.programs.iter().any(|program| program.name == client);
        let traffic = first.map_or((0, 0), |record| {
            let requests = record.requests.iter().filter(|request| of_programs(&request.client)).count();
            (requests, record.writes.iter().filter(|write| of_programs(&write.client)).count())
        });
        Report {
            scenario: self.prepared.scenario().name.clone(),
            path: self.files.scenario_path.clone(),
            program: self.files.searcher.clone(),
            version: self.files.version.clone(),
            seed: self.options.seed,
            command: self.files.command.clone(),
            references: self.baseline.references.iter().map(|reference| reference.record.took).collect(),
            traffic,
            volatility: self.baseline.references.first().map_or_else(Volatility::default, |reference| {
                self.baseline.normaliser.volatility(&reference.end)
            }),
            plans: state.counts.clone(),
            findings: std::mem::take(&mut state.found.findings),
            unsteady: std::mem::take(&mut state.found.unsteady),
            suspicions: std::mem::take(&mut state.found.suspicions),
            cases: std::mem::take(&mut state.cases),
            took: u64::try_from(self.elapsed().as_millis()).unwrap_or(0),
        }
    }
}
