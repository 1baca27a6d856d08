//! Transactions: several operations, each judged as if it came alone, stored at one revision or not at all. The operations run
//! the same code as single requests, over a [`Stage`] instead of the storage.

use super::create::unstored;
use super::{Answer, Answered, ObjectAnswer, Pipeline, check_method, heavy, in_time, warnings};
use crate::admission::Operation;
use crate::error;
use crate::kinds::CustomVersion;
use crate::limits;
use crate::metrics;
use crate::provenance::Note;
use crate::registry::{Mandate, Stage};
use crate::request::{Action, Expectation, Request, Target, Transaction, TransactionStep};
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::json;
use std::sync::Arc;

/// What a transaction did.
pub struct Transacted {
    /// The answer of each operation, in order; none for a check.
    pub answers: Vec<Option<Answered>>,
    /// The one revision of all that was written; 0 in a dry run. Where nothing had to be written: one at which all of it held.
    pub revision: i64,
}

impl Pipeline {
    /// Carries out a transaction. On return all of it is durable, at one revision.
    ///
    /// Operations are judged in order, and each sees what earlier ones made: also admission does, so that a namespace and
    /// what lives in it can be created together. Only authorization sees the cluster as it was before. Starts over whenever
    /// another writer changed what the transaction relied on, so that it never fails for that reason alone.
    ///
    /// # Errors
    /// The first refusal, with a cause that names the operation (`operations[2]`); nothing was written then. 504 if others
    /// write faster than it can for [`Transaction::time_limit`].
    pub async fn transact(&self, transaction: Transaction) -> Result<Transacted, Status> {
        check_size(&transaction)?;
        let span = tracing::debug_span!("pipeline", verb = "transact", operations = transaction.steps.len());
        let kind = metrics::Kind::of_transaction();
        let measured = self.metrics.begin(kind, transaction.dry_run);
        let limit = transaction.time_limit();
        let served = in_time(limit, self.transact_placed(&transaction), || self.metrics.terminated(kind));
        let transacted = tracing::Instrument::instrument(served, span).await;
        measured.end(transacted.as_ref().map_or_else(|status: &Status| status.code, |_| 200));
        transacted
    }

    async fn transact_placed(&self, transaction: &Transaction) -> Result<Transacted, Status> {
        let _place = self.in_flight.write_place(&self.metrics).await?;
        if !heavy::is_heavy_transaction(self.cache(), &self.admission, transaction) {
            return self.transact_admitted(transaction).await;
        }
        // Boxed, for it is rare, and every transaction would be as large as two.
        Box::pin(self.heavy.run(self.transact_admitted(transaction))).await
    }

    async fn transact_admitted(&self, transaction: &Transaction) -> Result<Transacted, Status> {
        if let Some(fence) = &transaction.fence {
            // A refused fence names the Lease's holder, so only callers who may do what they ask learn it.
            self.cache().fresh().await.map_err(error::of_read)?;
            self.authorize_all(transaction).await?;
            self.registry.check_fence(fence).await?;
        }
        let mandate = Mandate {
            note: Note::of_transaction(transaction, &self.nondet.clock).encode(),
            fence: transaction.fence.clone(),
            stage: None,
        };
        // Every charged write changes the quotas: after a lost commit, writers of this process take turns. A transaction that may have to
        // wait for a webhook takes none, since the webhook may want to write in the same namespace.
        let takes_turns = !self.may_wait_for_webhooks(transaction);
        let mut turns = Vec::new();
        loop {
            self.cache().fresh().await.map_err(error::of_read)?;
            let stage = Stage::new(self.cache().kinds());
            let answers = self.stage_all(transaction, &stage).await?;
            if transaction.dry_run {
                let answers = answers.into_iter().zip(&transaction.steps);
                let answers =
                    answers.map(|(answer, step)| answer.map(|answer| tried(answer, step)).transpose());
                return Ok(Transacted { answers: answers.collect::<Result<_, _>>()?, revision: 0 });
            }
            if let Some(revision) = self.registry.commit_stage(&stage, &mandate).await? {
                let settle =
                    |answer: Option<Answered>| answer.map(|answer| settled(answer, &stage, revision));
                return Ok(Transacted { answers: answers.into_iter().map(settle).collect(), revision });
            }
            turns.clear();
            if takes_turns {
                turns = Box::pin(self.registry.quota_turns(&stage)).await;
            }
        }
    }

    /// Whether a webhook may have to be asked about an operation, whatever it turns out to do.
    fn may_wait_for_webhooks(&self, transaction: &Transaction) -> bool {
        const OPERATIONS: [Operation; 4] =
            [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
        let calls = self.admission.calls(&transaction.user);
        transaction.steps.iter().any(|step| {
            let (TransactionStep::Act(target, _) | TransactionStep::Check(target, _)) = step;
            let converts = target.custom.as_ref().is_some_and(CustomVersion::needs_webhook);
            converts || OPERATIONS.iter().any(|one| calls.may_match(*one, target.resource.plural))
        })
    }

    /// May the caller do all of this?
    async fn authorize_all(&self, transaction: &Transaction) -> Result<(), Status> {
        for (index, step) in transaction.steps.iter().enumerate() {
            let (target, verb) = match step {
                TransactionStep::Act(target, action) => (target, action.verb()),
                TransactionStep::Check(target, _) => (target, "get"),
            };
            let allowed = self.check(&transaction.user, verb, target, &target.name).await;
            allowed.map_err(|status| error::of_operation(index, status))?;
        }
        Ok(())
    }

    async fn stage_all(
        &self,
        transaction: &Transaction,
        stage: &Arc<Stage>,
    ) -> Result<Vec<Option<Answered>>, Status> {
        let mut answers = Vec::with_capacity(transaction.steps.len());
        for (index, step) in transaction.steps.iter().enumerate() {
            let answer = match step {
                TransactionStep::Act(target, action) => {
                    self.stage_one(transaction, stage, target, action).await.map(Some)
                }
                TransactionStep::Check(target, expectation) => {
                    self.stage_check(transaction, stage, target, expectation).await.map(|()| None)
                }
            };
            answers.push(answer.map_err(|status| error::of_operation(index, status))?);
        }
        Ok(answers)
    }

    async fn stage_one(
        &self,
        transaction: &Transaction,
        stage: &Arc<Stage>,
        target: &Target,
        action: &Action,
    ) -> Result<Answered, Status> {
        if !is_operation(target, action) {
            let text = "an operation of a transaction creates, updates, patches or deletes one stored object";
            return Err(Status::bad_request(text));
        }
        let request = Request {
            user: transaction.user.clone(),
            agent: transaction.agent.clone(),
            causes: transaction.causes.clone(),
            fence: None,
            stage: Some(stage.clone()),
            timeout: None,
            target: target.clone(),
            action: action.clone(),
        };
        self.authorize(&request).await?;
        check_method(&request)?;
        let mut texts = Vec::new();
        let answer = self.act(&request, &mut texts).await?;
        Ok(Answered { answer, warnings: warnings::bounded(texts), accepted: false })
    }

    /// Holds now what a check demands? That it still does at the revision of the transaction is a guard of the commit.
    async fn stage_check(
        &self,
        transaction: &Transaction,
        stage: &Arc<Stage>,
        target: &Target,
        expectation: &Expectation,
    ) -> Result<(), Status> {
        self.check(&transaction.user, "get", target, &target.name).await?;
        if !target.resource.is_stored() || target.name.is_empty() || !target.subresource.is_empty() {
            return Err(Status::bad_request("a check names one stored object, and no subresource"));
        }
        let entry = self.registry.expect_staged(target, stage)?;
        let wanted = match (&entry, expectation) {
            (None, Expectation::Absent) => return Ok(()),
            (Some(_), Expectation::Absent) => {
                return Err(Status::already_exists(target.resource, &target.name));
            }
            (None, Expectation::Present { .. }) => {
                return Err(Status::not_found(target.resource, &target.name));
            }
            (Some(entry), Expectation::Present { uid, resource_version }) => (entry, uid, resource_version),
        };
        let (entry, uid, version) = wanted;
        if let Some(uid) = uid.as_ref().filter(|uid| uid.as_str() != entry.uid()) {
            return Err(error::uid_precondition(target, uid, entry.uid()));
        }
        match version {
            Some(version) if *version != entry.revision => {
                Err(error::version_precondition(target, *version, &entry.revision.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether something can be part of a transaction: it must write a stored object, and nothing but that.
fn is_operation(target: &Target, action: &Action) -> bool {
    let subresource = target.subresource;
    target.resource.is_stored()
        && match action {
            Action::Create(..) => matches!(subresource, "" | "binding" | "eviction"),
            Action::Update(..) | Action::Patch(..) => true,
            Action::Delete(..) => subresource.is_empty(),
            Action::Get(_) | Action::List(_) | Action::Watch(_) | Action::DeleteCollection(..) => false,
        }
}

fn check_size(transaction: &Transaction) -> Result<(), Status> {
    let (count, limit) = (transaction.steps.len(), limits::TRANSACTION_OPERATIONS);
    if (1..=limit).contains(&count) {
        return Ok(());
    }
    Err(Status::bad_request(format!("a transaction has 1 to {limit} operations, this one has {count}")))
}

/// The answer of an operation that was only tried: a new object has no revision.
fn tried(mut answered: Answered, step: &TransactionStep) -> Result<Answered, Status> {
    if let (Answer::Object(ObjectAnswer { entry, created: true, .. }), TransactionStep::Act(target, _)) =
        (&answered.answer, step)
    {
        answered.answer = unstored(target, entry, "")?;
    }
    Ok(answered)
}

/// An answer with the revision at which it came true. Objects are shown as the whole transaction left them.
pub(super) fn settled(mut answered: Answered, stage: &Stage, revision: i64) -> Answered {
    answered.answer = match answered.answer {
        Answer::Object(ObjectAnswer { entry, created, removed }) => {
            let entry = match stage.object(entry.key()) {
                None => entry,
                Some(last) => Arc::new(last.unwrap_or(entry).deleted_at(revision)),
            };
            Answer::Object(ObjectAnswer { entry, created, removed })
        }
        Answer::Value { mut value, created } => {
            if !meta::resource_version(&value).is_empty() {
                value["metadata"]["resourceVersion"] = json!(revision.to_string());
            }
            Answer::Value { value, created }
        }
        Answer::Status { status, .. } => Answer::Status { status, revision },
        other @ (Answer::List(_) | Answer::Watch(_)) => other,
    };
    answered
}
