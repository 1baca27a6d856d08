//! Executes the steps of a stage as writes of the API.

use super::addresses::StageNodes;
use super::jobs::{Job, Played};
use super::object::StageObject;
use super::player::resource;
use jiff::Timestamp;
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Patch};
use kstore_informer::{Causes, EventType, Object as _, Recorder, Reference};
use kstore_kwok::{Effect, Kind, PatchForm, StageFunctions, StageSet};
use serde_json::Value;
use std::sync::Arc;

/// What plays have in common.
#[derive(Clone)]
pub(super) struct PlayContext {
    pub(super) kind: Kind,
    pub(super) stages: Arc<StageSet>,
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) nodes: Arc<StageNodes>,
    pub(super) start: Timestamp,
    pub(super) version: Arc<str>,
}

impl PlayContext {
    /// Plays the job's stage from its step on.
    pub(super) async fn play(self, job: Job, now: Timestamp) -> (Job, Played) {
        let (mut written, mut is_deleted) = (None, false);
        let Some(stage) = self.stages.lifecycle(&self.kind).and_then(|all| all.stage(job.stage)) else {
            return (job, Played::Failed);
        };
        for step in job.step..stage.steps() {
            let effect = match stage.effect(step, job.object.value(), &self.functions(&job, now)) {
                Ok(None) => continue,
                Ok(Some(effect)) => effect,
                Err(problem) => {
                    self.failed(&job, stage.name(), &problem);
                    return (job, Played::Failed);
                }
            };
            if let Effect::Event { event_type, reason, message } = &effect {
                self.event(&job, event_type == "Warning", reason, message);
                continue;
            }
            if is_deleted {
                continue;
            }
            is_deleted = effect == Effect::Delete;
            match self.write(&job, effect).await {
                Ok(Some(object)) => written = Some(object),
                Ok(None) => {}
                Err(error) if is_passing(&error) => return (job, Played::Repeat { step }),
                // The object is gone, or another one: nothing is left to do.
                Err(error) if error.is_not_found() || error.is_conflict() => {
                    tracing::debug!(stage = stage.name(), %error, "a stage ends");
                    return (job, Played::Failed);
                }
                Err(error) => {
                    self.failed(&job, stage.name(), &error.to_string());
                    return (job, Played::Failed);
                }
            }
        }
        let written = if is_deleted { None } else { written };
        (job, Played::Done(written))
    }

    /// The functions of templates about the job's object.
    fn functions<'a>(&'a self, job: &'a Job, now: Timestamp) -> StageFunctions<'a> {
        let (version, object) = (&*self.version, job.object.value());
        StageFunctions { now, start: self.start, version, object, addresses: &*self.nodes }
    }

    /// Executes one effect; returns the job's object if it was patched.
    async fn write(&self, job: &Job, effect: Effect) -> Result<Option<StageObject>, ApiError> {
        let client = self.client.causes(&Causes::one(job.object.revision()));
        let key = job.object.key();
        let api = |kind: &Kind| resource(kind).map(|(gvr, _)| client.dynamic(gvr));
        let Some(own) = api(&self.kind) else { return Ok(None) };
        match effect {
            Effect::Event { .. } => Ok(None),
            Effect::Delete => {
                let params = DeleteParams::default().uid(job.object.uid()).grace(0);
                own.delete(key.namespace(), key.name(), &params).await?;
                Ok(None)
            }
            Effect::Patch { subresource, form, mut body } => {
                if let (PatchForm::Merge | PatchForm::Strategic, Value::Object(members)) = (form, &mut body) {
                    // The object of this name may have been replaced since.
                    members.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()))["uid"] =
                        Value::from(job.object.uid());
                }
                let patch = patch(form, body);
                let value = own.patch(key.namespace(), key.name(), &subresource, &patch).await?;
                Ok(Some(StageObject::new(value, &self.kind)))
            }
            Effect::Apply { subresource, form, body } => {
                self.apply(&client, key.namespace(), &subresource, form, body).await?;
                Ok(None)
            }
        }
    }

    /// Creates another object, or patches it if it exists. Objects of a namespace without one get the job's.
    async fn apply(
        &self,
        client: &Client,
        namespace: &str,
        subresource: &str,
        form: PatchForm,
        mut body: Value,
    ) -> Result<(), ApiError> {
        let text = |body: &Value, name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let kind = Kind { api_version: text(&body, "apiVersion"), kind: text(&body, "kind") };
        let Some((gvr, is_namespaced)) = resource(&kind) else {
            return Err(ApiError::Json(format!("stages apply objects of built-in kinds, not {kind}")));
        };
        let namespace = match (is_namespaced, text(&body["metadata"], "namespace")) {
            (false, _) => String::new(),
            (true, own) if own.is_empty() => namespace.to_owned(),
            (true, own) => own,
        };
        if is_namespaced {
            body["metadata"]["namespace"] = Value::from(&*namespace);
        }
        let name = text(&body["metadata"], "name");
        let api: DynamicApi = client.dynamic(gvr);
        if subresource.is_empty() {
            match api.create(&namespace, &body).await {
                Err(error) if error.is_already_exists() && !name.is_empty() => {}
                outcome => return outcome.map(drop),
            }
        }
        api.patch(&namespace, &name, subresource, &patch(form, body)).await.map(drop)
    }

    fn event(&self, job: &Job, is_warning: bool, reason: &str, message: &str) {
        let key = job.object.key();
        let about = Reference {
            api_version: self.kind.api_version.clone(),
            kind: self.kind.kind.clone(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            uid: job.object.uid().to_owned(),
            ..Reference::default()
        };
        let event_type = if is_warning { EventType::Warning } else { EventType::Normal };
        let recorder = self.recorder.causes(&Causes::one(job.object.revision()));
        recorder.event(&about, event_type, reason, message);
    }

    /// Says that a stage fails on an object.
    fn failed(&self, job: &Job, stage: &str, problem: &str) {
        let message = format!("stage {stage:?} fails: {problem}");
        tracing::warn!(object = %job.object.key(), kind = %self.kind, "{message}");
        self.event(job, true, "StageFailed", &message);
    }
}

fn patch(form: PatchForm, body: Value) -> Patch {
    match form {
        PatchForm::Json => Patch::Json(body),
        PatchForm::Merge => Patch::Merge(body),
        PatchForm::Strategic => Patch::Strategic(body),
        PatchForm::Apply => Patch::Apply { object: body, force: true },
    }
}

/// Whether the same write may succeed later.
fn is_passing(error: &ApiError) -> bool {
    match error {
        ApiError::Json(_) => false,
        other => matches!(other.code(), None | Some(429 | 500..)),
    }
}
