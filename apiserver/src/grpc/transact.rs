//! The gRPC call Transact: several operations in one commit.

use super::{Caller, Grpc, create, delete, object_of, patch, target, update};
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::{of_operation, to_grpc};
use kstore_registry::request::{Action, Expectation, Transaction, TransactionStep};
use pb::operation::Kind;

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::TransactRequest>,
) -> Result<tonic::Response<pb::TransactResponse>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let message = request.into_inner();
    let numbered = message.operations.into_iter().enumerate();
    let steps = numbered.map(|(index, operation)| step(&caller, index, operation.kind));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    let resources: Vec<_> = steps.iter().map(resource).collect();
    let transaction = Transaction {
        user: caller.user,
        agent: caller.agent,
        causes: caller.causes,
        fence: caller.fence,
        dry_run: message.dry_run,
        timeout: caller.timeout,
        steps,
    };
    let done =
        grpc.pipeline.transact_with(transaction, caller.has_seat).await.map_err(|status| to_grpc(&status))?;
    let mut response =
        pb::TransactResponse { objects: Vec::new(), revision: done.revision, warnings: Vec::new() };
    for (answered, resource) in done.answers.into_iter().zip(resources) {
        let Some(answered) = answered else {
            response.objects.push(pb::Object::default());
            continue;
        };
        response.warnings.extend(answered.warnings);
        response.objects.push(object_of(resource, answered.answer)?);
    }
    Ok(tonic::Response::new(response))
}

fn step(caller: &Caller, index: usize, kind: Option<Kind>) -> Result<TransactionStep, tonic::Status> {
    let (target, action) = match kind {
        Some(Kind::Create(message)) => create::action(caller, message)?,
        Some(Kind::Update(message)) => update::action(caller, message)?,
        Some(Kind::Patch(message)) => patch::action(caller, message)?,
        Some(Kind::Delete(message)) => delete::action(caller, message)?,
        Some(Kind::Check(message)) => return check(caller, index, message),
        None => return Err(refused(index, "the operation is empty")),
    };
    if is_dry_run(&action) {
        let text = "an operation must not set dry_run: set it on the transaction";
        return Err(refused(index, text));
    }
    Ok(TransactionStep::Act(target, Box::new(action)))
}

fn refused(index: usize, text: &str) -> tonic::Status {
    to_grpc(&of_operation(index, Status::bad_request(text)))
}

fn check(caller: &Caller, index: usize, message: pb::Check) -> Result<TransactionStep, tonic::Status> {
    let conditions = !message.uid.is_empty() || message.revision != 0;
    let expectation = match message.absent {
        true if conditions => {
            let text = "a check for absence must not state a uid or a revision";
            return Err(refused(index, text));
        }
        true => Expectation::Absent,
        false => Expectation::Present {
            uid: Some(message.uid).filter(|uid| !uid.is_empty()),
            resource_version: Some(message.revision).filter(|revision| *revision != 0),
        },
    };
    Ok(TransactionStep::Check(target(&caller.kinds, message.r#ref)?, expectation))
}

fn resource(step: &TransactionStep) -> &'static kstore_api::resource::Resource {
    match step {
        TransactionStep::Act(target, _) | TransactionStep::Check(target, _) => target.resource,
    }
}

fn is_dry_run(action: &Action) -> bool {
    match action {
        Action::Create(_, options)
        | Action::Update(_, options)
        | Action::Patch(_, _, options)
        | Action::Delete(_, options)
        | Action::DeleteCollection(_, _, options) => options.dry_run,
        Action::Get(_) | Action::List(_) | Action::Watch(_) => false,
    }
}
