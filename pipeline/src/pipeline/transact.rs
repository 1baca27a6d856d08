//! Transactions: several operations, each judged like a single request, that are stored together at one
//! revision or not at all. The operations run the code of single requests over a [`Stage`] instead of the
//! storage.

use super::create::unstored_answer;
use super::{Answer, Answered, ObjectAnswer, Pipeline, check_method, heavy, in_time, warnings};
use futures::future::BoxFuture;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_registry::error;
use kstore_registry::kinds::CustomVersion;
use kstore_registry::provenance::Note;
use kstore_registry::registry::WriteContext;
use kstore_registry::request::{Action, Expectation, Request, Target, Transaction, TransactionStep};
use kstore_registry::stage::Stage;
use kstore_storage::{limits, metrics};
use serde_json::json;
use std::sync::Arc;

/// The result of a committed or simulated (dry-run) transaction.
pub struct Transacted {
    /// The answer of each operation, in order; `None` for a check.
    pub answers: Vec<Option<Answered>>,
    /// Revision of the commit; 0 in a dry run. If the transaction wrote nothing: a revision at which all
    /// checks held.
    pub revision: i64,
}

impl Pipeline {
    /// Executes a transaction. On return all of its writes are durable, at one revision.
    ///
    /// Operations run in order, and each sees the writes of earlier ones. Admission sees them too, so that a
    /// namespace and the objects in it can be created together. Authorization sees only the cluster before
    /// the transaction. Starts over whenever another writer changes an object that the transaction read, so
    /// that it never fails for that reason alone.
    ///
    /// # Errors
    /// The first refusal, with a cause that names the operation (`operations[2]`); nothing was written then.
    /// 504 if concurrent writers keep it from committing within [`Transaction::time_limit`].
    pub async fn transact(&self, transaction: Transaction) -> Result<Transacted, Status> {
        self.transact_with(transaction, false).await
    }

    /// Executes a transaction like [`Pipeline::transact`]. With `has_seat` it runs on seats of a priority level,
    /// and needs no further permit. Boxed here, so that no crate above generates the code of all requests again.
    pub fn transact_with(
        &self,
        transaction: Transaction,
        has_seat: bool,
    ) -> BoxFuture<'_, Result<Transacted, Status>> {
        Box::pin(self.transact_measured(transaction, has_seat))
    }

    async fn transact_measured(
        &self,
        transaction: Transaction,
        has_seat: bool,
    ) -> Result<Transacted, Status> {
        check_size(&transaction)?;
        heavy::check_transaction(&transaction)?;
        let span = tracing::debug_span!("pipeline", verb = "transact", operations = transaction.steps.len());
        let kind = metrics::Kind::of_transaction();
        let measured = self.metrics.begin(kind, transaction.dry_run);
        let limit = transaction.time_limit();
        let served = in_time(limit, self.transact_with_permit(&transaction, has_seat), || {
            self.metrics.terminated(kind);
        });
        let transacted = tracing::Instrument::instrument(served, span).await;
        measured.end(transacted.as_ref().map_or_else(|status: &Status| status.code, |_| 200));
        transacted
    }

    async fn transact_with_permit(
        &self,
        transaction: &Transaction,
        has_seat: bool,
    ) -> Result<Transacted, Status> {
        let _permit = match has_seat {
            true => None,
            false => Some(self.in_flight.write_permit(&self.metrics).await?),
        };
        if !heavy::is_heavy_transaction(self.cache(), &self.admission, transaction) {
            return self.transact_admitted(transaction).await;
        }
        // Boxed because it is rare: otherwise the future of every transaction would be twice as large.
        let permits = heavy::permits_of_transaction(self.cache(), transaction);
        Box::pin(self.heavy.run(permits, self.transact_admitted(transaction))).await
    }

    async fn transact_admitted(&self, transaction: &Transaction) -> Result<Transacted, Status> {
        self.check_not_frozen(true)?;
        if let Some(fence) = &transaction.fence {
            self.cache().fresh().await.map_err(error::of_read)?;
            self.authorize_all(transaction).await?;
            self.check_may_fence(&transaction.user, fence).await?;
            self.registry.check_fence(fence).await?;
        }
        let context = WriteContext {
            note: Note::of_transaction(transaction, &self.nondet.clock).encode(),
            fence: transaction.fence.clone(),
            stage: None,
            group: None,
        };
        // Every charged write changes the quotas: after a lost commit, writers of this process take turns. A
        // transaction that may wait for a webhook takes no turn, because the webhook may want to write in the
        // same namespace.
        let locks_quotas = !self.may_wait_for_webhooks(transaction);
        let mut locks = Vec::new();
        loop {
            self.cache().fresh().await.map_err(error::of_read)?;
            let stage = Stage::new(self.cache().kinds());
            let answers = self.stage_all(transaction, &stage).await?;
            if transaction.dry_run {
                let answers = answers.into_iter().zip(&transaction.steps);
                let answers = answers
                    .map(|(answer, step)| answer.map(|answer| dry_run_answer(answer, step)).transpose());
                return Ok(Transacted { answers: answers.collect::<Result<_, _>>()?, revision: 0 });
            }
            if let Some(revision) = self.registry.commit_stage(&stage, &context).await? {
                let settle =
                    |answer: Option<Answered>| answer.map(|answer| at_revision(answer, &stage, revision));
                return Ok(Transacted { answers: answers.into_iter().map(settle).collect(), revision });
            }
            locks.clear();
            if locks_quotas {
                locks = Box::pin(self.registry.quota_locks(&stage)).await;
            }
        }
    }

    /// Whether any step of the transaction may have to wait for a webhook. Every verb counts that a step may turn out to have.
    fn may_wait_for_webhooks(&self, transaction: &Transaction) -> bool {
        const OPERATIONS: [Operation; 4] =
            [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
        let calls = self.admission.calls(&transaction.user);
        transaction.steps.iter().any(|step| {
            let (TransactionStep::Act(target, _) | TransactionStep::Check(target, _)) = step;
            let converts = target.custom.as_ref().is_some_and(CustomVersion::needs_webhook);
            converts || OPERATIONS.iter().any(|one| calls.may_match(*one, target.resource))
        })
    }

    /// Checks that the caller may do all operations.
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
            group: None,
            timeout: None,
            bound: None,
            target: target.clone(),
            action: action.clone(),
        };
        self.authorize(&request).await?;
        check_method(&request)?;
        let mut texts = Vec::new();
        let answer = self.act(&request, &mut texts).await?;
        Ok(Answered { answer, warnings: warnings::bounded(texts), accepted: false })
    }

    /// Checks an expectation on the staged state. The commit guards that it still holds at the transaction's
    /// revision.
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

/// Whether an action can be an operation of a call with several: it must write one stored object and nothing else.
pub(super) fn is_operation(target: &Target, action: &Action) -> bool {
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

/// The answer of an operation in a dry run: a new object has no revision.
fn dry_run_answer(mut answered: Answered, step: &TransactionStep) -> Result<Answered, Status> {
    if let (Answer::Object(ObjectAnswer { entry, created: true, .. }), TransactionStep::Act(target, _)) =
        (&answered.answer, step)
    {
        answered.answer = unstored_answer(target, entry, "")?;
    }
    Ok(answered)
}

/// The answer of an operation with the revision of the commit. Shows objects as the whole transaction left
/// them.
pub(super) fn at_revision(mut answered: Answered, stage: &Stage, revision: i64) -> Answered {
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
