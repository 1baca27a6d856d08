//! Carrying out a plan: its writes in transactions, one after another, or a dry run of them.

use super::plan::{UndoPlan, UndoStep};
use super::{UndoneObject, count, resource};
use anyhow::anyhow;
use kstore_api::status::Reason;
use kstore_client::{ApiError, Client, DeleteParams, Propagation, Transaction, TransactionError};
use kstore_informer::Revision;
use std::collections::VecDeque;

/// Most objects of one transaction: the server takes as many keys.
const WRITES: usize = 128;

/// What came of the writes of a plan.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Why the server would refuse them; of a dry run.
    pub refusal: Option<String>,
    /// The revisions of the writes.
    pub revisions: Vec<u64>,
    /// Number of writes that a dry run could not check.
    pub unchecked: usize,
}

/// A write of a plan, and the object that it is to.
pub(super) type PlannedWrite<'p> = (&'p UndoneObject, &'p UndoPlan);

/// Carries out planned writes, or with `is_dry` has the server check them. Those of one transaction are written together or not at all.
///
/// # Errors
/// The server refuses a write, or does not answer. The error says which revisions were written before.
pub(super) async fn carry_out(
    client: &Client,
    writes: &[PlannedWrite<'_>],
    is_dry: bool,
) -> anyhow::Result<Carried> {
    let mut carried = Carried::default();
    let mut batches: VecDeque<_> = writes.chunks(WRITES).collect();
    let mut left = writes.len();
    while let Some(batch) = batches.pop_front() {
        let writing = transaction(client, batch);
        let written = if is_dry { writing.dry_run().commit().await } else { writing.commit().await };
        match written {
            // Quotas and addresses are written with the objects that they count.
            Err(error) if is_too_large(&error) && batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                batches.push_front(second);
                batches.push_front(first);
                continue;
            }
            Err(error) if is_dry => carried.refusal = Some(error.to_string()),
            Err(error) => return Err(refused(&error, &carried.revisions, left)),
            Ok(_) if is_dry => {}
            Ok(written) => carried.revisions.push(written.revision().0),
        }
        left -= batch.len();
        // What follows may be in a namespace or of a kind that this batch would make.
        if is_dry && (carried.refusal.is_some() || batch.iter().any(makes_place)) {
            carried.unchecked = left;
            break;
        }
    }
    Ok(carried)
}

/// Whether a transaction has more than the server takes at once.
fn is_too_large(error: &TransactionError) -> bool {
    matches!(&error.error, ApiError::Status(status) if status.reason == Reason::RequestEntityTooLarge)
}

/// Whether a write makes a namespace or a definition, which later ones may need.
fn makes_place((object, plan): &PlannedWrite<'_>) -> bool {
    let kind = object.object.kind.qualified();
    let is_place = matches!(&*kind, "namespaces" | "customresourcedefinitions.apiextensions.k8s.io");
    is_place && matches!(plan.step, UndoStep::Create(_))
}

/// Why a transaction failed, whether it may have been carried out, and what was written before.
fn refused(error: &TransactionError, written: &[u64], left: usize) -> anyhow::Error {
    let what = match (&error.error, written) {
        (ApiError::Transport(_), _) => format!("it is unknown whether it was written: {error}"),
        (_, []) => return anyhow!("nothing was written: {error}"),
        _ => format!("{} not written: {error}", count(left, "object")),
    };
    if written.is_empty() {
        return anyhow!(what);
    }
    let back: Vec<String> =
        written.iter().rev().map(|revision| format!("kstore-server undo {revision} --yes")).collect();
    anyhow!("{what}; to take back what was written before: {}", back.join("; "))
}

/// The writes of a batch. Each is conditional on its object being as it was read.
fn transaction(client: &Client, batch: &[PlannedWrite<'_>]) -> Transaction {
    let mut writing = Transaction::new(client);
    for (UndoneObject { object, .. }, plan) in batch {
        let gvr = resource(&object.kind);
        writing = match &plan.step {
            UndoStep::Update(value) => writing.update_value(&gvr, value, ""),
            UndoStep::Create(value) => writing.create_value(&gvr, &object.namespace, value),
            UndoStep::Delete { uid, version } => {
                let params =
                    DeleteParams { propagation: Some(Propagation::Background), ..DeleteParams::default() };
                let params = params.uid(uid).at(Revision(*version));
                writing.delete_value(&gvr, &object.namespace, &object.name, &params)
            }
            UndoStep::Nothing(_) => writing,
        };
    }
    writing
}
