//! The steps of a run. After each the operators come to rest, without time passing, before the next one is taken.

use super::{ActiveRun, RunError, RunRequest, Steps, USER};
use crate::program::{Placeholders, filled, in_folder};
use crate::record::{RecordedStep, RunEnd};
use crate::scenario::{ObjectRef, Step, StepAction, WaitGoal};
use kstore_api::status::Status;
use kstore_client::manifest::{Applier, ManifestObject};
use kstore_client::{Client, DeleteParams, Patch};
use kstore_lab::advance::{Advance, advance, until_quiet};
use kstore_lab::clock::Ended;
use kstore_lab::clock::driver::Signal;
use kstore_lab::host::Running;
use kstore_lab::objects::{self, Condition, ObjectName};
use kstore_lab::programs::CommandGroup;
use kstore_lab::settle::{Settle, settle};
use kstore_lab::{Credentials, limits as lab_limits};
use serde_json::{Value, json};
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// Real time after a step for which clients may be busy before the next one is taken.
const REST: Duration = Duration::from_secs(10);

/// Real time for which clients stay quiet after a step of a reference. A busy machine may show a program as quiet that has not been given
/// the processor yet; with a plan the next step may overtake it, as a quick user does, but plans are made of what references do.
const STEADY: Duration = Duration::from_millis(100);

/// Real time between two looks at an object for which time of the cluster has passed in vain.
const LOOK: Duration = Duration::from_millis(50);

/// Why a step did not succeed.
enum StepError {
    /// The run ends with it.
    Ended(RunEnd),
    /// The run itself cannot go on.
    Failed(RunError),
}

impl From<Status> for StepError {
    fn from(status: Status) -> Self {
        Self::Failed(RunError::Lab { what: "a step failed", status: Box::new(status) })
    }
}

fn name_of(object: &ObjectRef) -> Result<ObjectName, Status> {
    ObjectName::parse(&object.to_string(), "object")
}

/// The UID of an object; empty if there is none.
fn uid(object: Option<&Value>) -> String {
    object.and_then(|object| object["metadata"]["uid"].as_str()).unwrap_or_default().to_owned()
}

fn user(running: &Arc<Running>) -> Client {
    objects::client(running).agent(USER)
}

impl ActiveRun<'_> {
    /// Takes the steps in order. The first that fails ends the run.
    pub(super) async fn take_steps(&mut self, request: &RunRequest<'_>) -> Result<Steps, RunError> {
        let mut taken = Vec::new();
        for (at, step) in self.prepared.scenario.steps.iter().take(request.steps).enumerate() {
            let begin = self.current.running().store().revision().0;
            let result = self.take(step).await;
            self.rest().await?;
            let end = self.current.running().store().revision().0;
            taken.push(RecordedStep { name: step.name.clone(), begin, end });
            match result {
                Ok(()) => {}
                Err(StepError::Ended(end)) => return Ok((taken, Some(end))),
                Err(StepError::Failed(error)) => return Err(error),
            }
            if at == 0 && request.is_restarted {
                self.restart_operators().await?;
            }
        }
        Ok((taken, None))
    }

    /// Waits until all clients are quiet, without time passing. A client that is busy for too long is left to the end of the run.
    pub(super) async fn rest(&mut self) -> Result<(), RunError> {
        let (begin, mut steady) = (self.elapsed(), None);
        loop {
            let (running, clients) = (self.current.running(), &self.current.bridge.clients);
            let quiet = until_quiet(running, clients, self.patience()).await;
            let quiet = quiet.map_err(|ended| Status::internal(ended.to_string()));
            let is_quiet = quiet.map_err(RunError::lab("the fork has ended"))?.is_ok();
            self.revive().await?;
            let revision = is_quiet.then(|| self.revision());
            let is_enough = is_quiet && (self.injected.is_some() || steady == revision);
            if is_enough || self.elapsed().saturating_sub(begin) >= REST || self.is_held_back(begin).await {
                return Ok(());
            }
            steady = revision;
            if is_quiet {
                tokio::time::sleep(STEADY).await;
            }
        }
    }

    async fn take(&mut self, step: &Step) -> Result<(), StepError> {
        match &step.action {
            StepAction::Apply(path) => {
                let objects = self.prepared.sources.applied.get(path).cloned().unwrap_or_default();
                self.apply(step, objects).await
            }
            StepAction::Wait { object, goal, within } => {
                let condition = match goal {
                    WaitGoal::Condition(name) => Condition::Is(name.clone()),
                    WaitGoal::Matches(value) => Condition::Matches(value.clone()),
                    WaitGoal::Deleted => self.gone(object).await?,
                    WaitGoal::Exists => Condition::Matches(json!({})),
                };
                self.wait(step, object, condition, *within).await
            }
            StepAction::Patch { object, merge } => self.patch(step, object, merge.clone()).await,
            StepAction::Settle => self.settle(step).await,
            StepAction::Advance(by) => self.advance(*by).await,
            StepAction::Exec(command) => self.exec(step, command).await,
            StepAction::Delete { object, waits } => {
                self.delete(step, object).await?;
                match waits {
                    true => self.wait_until_gone(step, object).await,
                    false => Ok(()),
                }
            }
            StepAction::Recreate(object) => {
                self.delete(step, object).await?;
                self.wait_until_gone(step, object).await?;
                let all = self.prepared.sources.applied.values().flatten();
                let named = all.filter(|applied| applied.name() == object.name).cloned().collect();
                self.apply(step, named).await
            }
        }
    }

    /// Runs a call of the user on the cluster's runtime; what it is refused ends the run.
    async fn call<T, F>(&self, step: &Step, future: F) -> Result<T, StepError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, String>> + Send + 'static,
    {
        // Programs see the whole change of the user, not the parts that happened to be there. One that must act before the change can be
        // made, such as a webhook, does so after the patience.
        let pause = self.order().pause();
        let mut calling = std::pin::pin!(self.current.running().call(future));
        let called = match tokio::time::timeout(lab_limits::PATIENCE, calling.as_mut()).await {
            Ok(called) => called,
            Err(_) => {
                drop(pause);
                calling.await
            }
        };
        let called = called.map_err(|ended| Status::internal(ended.to_string()))?;
        called.map_err(|problem| StepError::Ended(RunEnd::StepFailed { step: step.name.clone(), problem }))
    }

    async fn apply(&mut self, step: &Step, objects: Vec<ManifestObject>) -> Result<(), StepError> {
        // The next wait for the end of an object means the new one.
        self.deleted.clear();
        let running = self.current.running().clone();
        self.call(step, async move {
            let applier = Applier::new(&user(&running));
            for object in objects {
                applier.apply(object).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        })
        .await
    }

    async fn patch(&self, step: &Step, object: &ObjectRef, merge: Value) -> Result<(), StepError> {
        let (running, name, shown) = (self.current.running().clone(), name_of(object)?, object.to_string());
        self.call(step, async move {
            let gvr = name.gvr(&running).ok_or_else(|| format!("no resource of {shown} is served"))?;
            let api = user(&running).dynamic(gvr);
            let patched = api.patch(&name.namespace, &name.name, "", &Patch::Merge(merge)).await;
            patched.map(|_| ()).map_err(|error| error.to_string())
        })
        .await
    }

    async fn delete(&mut self, step: &Step, object: &ObjectRef) -> Result<(), StepError> {
        let (running, name, shown) = (self.current.running().clone(), name_of(object)?, object.to_string());
        let found = self.read(&name).await?;
        self.deleted.insert(object.clone(), uid(found.as_ref()));
        self.call(step, async move {
            let gvr = name.gvr(&running).ok_or_else(|| format!("no resource of {shown} is served"))?;
            let api = user(&running).dynamic(gvr);
            let deleted = api.delete(&name.namespace, &name.name, &DeleteParams::default()).await;
            deleted.map(|_| ()).map_err(|error| error.to_string())
        })
        .await
    }

    async fn read(&self, name: &ObjectName) -> Result<Option<Value>, Status> {
        let (running, name) = (self.current.running().clone(), name.clone());
        let found = self.current.running().call(async move { objects::read(&running, &name).await }).await;
        found.map_err(|ended| Status::internal(ended.to_string()))?
    }

    /// What a wait for the end of an object waits for: as with `kubectl wait --for=delete`, another user may have created an object of the
    /// same name by then. Means the object that a step deleted, or else the one that is there now.
    async fn gone(&self, object: &ObjectRef) -> Result<Condition, StepError> {
        if let Some(uid) = self.deleted.get(object) {
            return Ok(Condition::Gone(uid.clone()));
        }
        let found = self.read(&name_of(object)?).await?;
        Ok(Condition::Gone(uid(found.as_ref())))
    }

    async fn wait_until_gone(&self, step: &Step, object: &ObjectRef) -> Result<(), StepError> {
        let gone = self.gone(object).await?;
        self.wait(step, object, gone, crate::limits::WAIT).await
    }

    /// Lets time pass until an object meets a condition.
    async fn wait(
        &self,
        step: &Step,
        object: &ObjectRef,
        condition: Condition,
        within: Duration,
    ) -> Result<(), StepError> {
        let running = self.current.running().clone();
        let name = name_of(object)?;
        let goal = Arc::new(Signal::default());
        let (asked, reached, wanted, met) = (running.clone(), goal.clone(), name.clone(), condition.clone());
        let _waiting = running.spawn(async move {
            if objects::wait(&asked, &wanted, &met).await.is_ok() {
                reached.set();
            }
        });
        let mut starting = None;
        let found = 'late: loop {
            let target = running.time().checked_add(within).unwrap_or(jiff::Timestamp::MAX);
            self.advance_to(target, Some(goal.clone())).await?;
            let (revision, mut begin) = (self.revision(), self.elapsed());
            loop {
                let found = self.read(&name).await?;
                // What a plan holds back comes after a later step.
                if condition.holds(found.as_ref()) || self.is_held() {
                    return Ok(());
                }
                if self.is_any_starting(&mut starting).await {
                    begin = self.elapsed();
                }
                // A program's own timers, such as those of repetitions, are in real time.
                if self.elapsed() >= (begin + self.silence()).min(self.limits.total) {
                    break 'late found;
                }
                tokio::time::sleep(LOOK).await;
                if self.revision() != revision {
                    // What a program does late needs time of the cluster, as a pod that is bound does to start.
                    continue 'late;
                }
            }
        };
        let state = found.map_or_else(
            || "it does not exist".to_owned(),
            |found| format!("its status is {}", found["status"]),
        );
        let problem =
            format!("{object} is not what the step waits for after {} s: {state}", within.as_secs());
        Err(StepError::Ended(RunEnd::StepTimedOut { step: step.name.clone(), problem }))
    }

    async fn settle(&self, step: &Step) -> Result<(), StepError> {
        let begin = self.elapsed();
        loop {
            let how = Settle { limit: lab_limits::SETTLE, patience: self.patience(), is_virtual: true };
            let settled = settle(self.current.bridge.settling(), how).await?;
            // What a plan holds back comes after a later step.
            if settled.settled || self.is_held_back(begin).await {
                return Ok(());
            }
            if self.is_over() {
                let busy: Vec<String> = settled.busy.iter().map(|busy| busy.line()).collect();
                let (step, problem) = (step.name.clone(), busy.join("; "));
                return Err(StepError::Ended(RunEnd::StepTimedOut { step, problem }));
            }
        }
    }

    /// Lets time pass.
    pub(super) async fn pass(&self, by: Duration) -> Result<(), Status> {
        let target = self.current.running().time().checked_add(by).unwrap_or(jiff::Timestamp::MAX);
        self.advance_to(target, None).await
    }

    /// Lets time pass until a goal is reached. Waits for busy clients as long as the run may take.
    async fn advance_to(&self, target: jiff::Timestamp, goal: Option<Arc<Signal>>) -> Result<(), Status> {
        let (running, clients) = (self.current.running(), &self.current.bridge.clients);
        let mut begin = self.elapsed();
        loop {
            let how = Advance { goal: goal.clone(), patience: self.patience(), ..Advance::to(target) };
            let advanced = advance(running, clients, &how).await;
            let advanced = advanced.map_err(|ended| Status::internal(ended.to_string()))?;
            if advanced.ended != Ended::Busy || self.is_over() {
                return Ok(());
            }
            if advanced.time > advanced.from {
                begin = self.elapsed();
            }
            if self.is_held_back(begin).await {
                return Ok(());
            }
        }
    }

    async fn advance(&self, by: Duration) -> Result<(), StepError> {
        Ok(self.pass(by).await?)
    }

    /// Runs a command of the user, which must exit with 0.
    async fn exec(&self, step: &Step, command: &[String]) -> Result<(), StepError> {
        let failed =
            |problem: String| StepError::Ended(RunEnd::StepFailed { step: step.name.clone(), problem });
        let path = self.folder.join("kubeconfig");
        let groups = ["system:masters".to_owned()];
        let text = self.cluster.kubeconfig(&Credentials::Certificate(USER, &groups))?;
        std::fs::write(&path, text).map_err(|error| failed(error.to_string()))?;
        let values = Placeholders {
            kubeconfig: path.display().to_string(),
            dir: self.folder.display().to_string(),
            ports: self.operators.ports.clone(),
        };
        let command = in_folder(command, &self.prepared.folder);
        let command: Result<Vec<String>, _> = command.iter().map(|part| filled(part, &values)).collect();
        let command = command.map_err(|error| failed(error.to_string()))?;
        let (first, arguments) = command.split_first().ok_or_else(|| failed("no command".to_owned()))?;
        let mut child = tokio::process::Command::new(first);
        child.args(arguments).env("KUBECONFIG", &path).current_dir(&self.prepared.folder).kill_on_drop(true);
        child.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let unusable = |error: io::Error| failed(format!("{first} cannot be started: {error}"));
        let child = child.spawn().map_err(unusable)?;
        let group = child.id().map(CommandGroup::watch).transpose().map_err(unusable)?;
        let left = self.limits.total.saturating_sub(self.elapsed());
        let output = tokio::time::timeout(left, child.wait_with_output()).await;
        drop(group);
        let output = output.map_err(|_| failed(format!("{first} did not end in time")))?;
        let output = output.map_err(unusable)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(format!("{first} ended with {}: {}", output.status, said.trim_end())))
    }
}
