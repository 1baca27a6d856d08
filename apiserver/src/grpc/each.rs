//! The gRPC call Each: independent operations. The server answers each, and records it in the audit log, like a call of its own.

use super::audited::{self, AuditedMessage as _, AuditedResponse as _, CallPart};
use super::{Caller, Grpc, bind, create, delete, object_of, patch, seats, update};
use kstore_access::audit::{self, Audit, Trail};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::{Answered, EachOperation, Refused};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::{of_grpc, to_grpc};
use kstore_registry::request::{Action, Request, causes};
use pb::each_operation::Kind;
use std::sync::Arc;

/// The name of the call.
const CALL: &str = "Each";

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::EachRequest>,
) -> Result<tonic::Response<pb::EachResponse>, tonic::Status> {
    let (mut request, seat_request) = seats::ask(grpc, CALL, request);
    let _seat = match seat_request {
        None => None,
        Some(seat_request) => {
            // Boxed because it is rare: otherwise the future of every call would be larger.
            let seat = Box::pin(seats::granted(seat_request)).await?;
            request.extensions_mut().insert(seats::HasSeat);
            Some(seat)
        }
    };
    let results = match &grpc.audit {
        None => {
            let caller = grpc.caller(&request).await?;
            execute(grpc, &caller, request.into_inner().operations, &[]).await?
        }
        Some(audit) => Box::pin(serve_recorded(grpc, audit, request)).await?,
    };
    Ok(tonic::Response::new(pb::EachResponse { results }))
}

/// Executes the operations and records each in the audit log, with an ID of its own. If the caller is refused, so is each operation.
async fn serve_recorded(
    grpc: &Grpc,
    audit: &Arc<Audit>,
    request: tonic::Request<pb::EachRequest>,
) -> Result<Vec<pb::EachResult>, tonic::Status> {
    let call = audited::trail_of(grpc, audit, CALL, &request);
    let parts = request.get_ref().parts();
    let caller = match audit::scope(call.clone(), grpc.caller(&request)).await {
        Ok(caller) => caller,
        Err(refused) => {
            let operations = parts.iter().map(|part| part.operation(CALL)).collect();
            if call.received(operations).await.is_ok() {
                let status = of_grpc(&refused);
                call.answered(grpc.pipeline.authorizer(), status.code, Some(&status)).await;
            }
            return Err(refused);
        }
    };
    let trail = |_: &CallPart| call.of_operation(grpc.pipeline.nondet().rng.uuid());
    let trails: Vec<_> = parts.iter().map(trail).collect();
    // Operations of a call whose client leaves before the response are recorded as well.
    let _ends: Vec<_> = trails.iter().map(Trail::stream_end).collect();
    for (part, trail) in parts.into_iter().zip(&trails) {
        trail.received(vec![part.operation(CALL)]).await.map_err(|status| to_grpc(&status))?;
        trail.request_object(0, || part.parsed());
    }
    let executed = execute(grpc, &caller, request.into_inner().operations, &trails).await;
    if let Err(refused) = &executed {
        for trail in &trails {
            let status = of_grpc(refused);
            trail.answered(grpc.pipeline.authorizer(), status.code, Some(&status)).await;
        }
    }
    executed
}

/// Executes the operations. `trails` are those of the operations, or none.
async fn execute(
    grpc: &Grpc,
    caller: &Caller,
    operations: Vec<pb::EachOperation>,
    trails: &[Arc<Trail>],
) -> Result<Vec<pb::EachResult>, tonic::Status> {
    let count = operations.len();
    let mut results: Vec<Option<pb::EachResult>> = operations.iter().map(|_| None).collect();
    let (mut served, mut asked) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (index, operation) in operations.into_iter().enumerate() {
        match request_of(caller, operation) {
            Ok(request) => {
                asked.push((index, request.target.resource, success_code(&request.action)));
                served.push(EachOperation { request, trail: trails.get(index).cloned() });
            }
            Err(refused) => {
                let refused = Refused::from(of_grpc(&refused));
                record(grpc, trails.get(index), Err(&refused.status)).await;
                results[index] = Some(refusal(refused));
            }
        }
    }
    // The pipeline refuses a call without operations.
    let outcomes = match served.is_empty() && count > 0 {
        true => Vec::new(),
        false => {
            grpc.pipeline.serve_each(served, caller.has_seat).await.map_err(|status| to_grpc(&status))?
        }
    };
    for ((index, resource, code), outcome) in asked.into_iter().zip(outcomes) {
        let done = outcome.and_then(|answered| object(resource, answered));
        let recorded = done.as_ref().map(|(object, _)| (code, object)).map_err(|refused| &refused.status);
        record(grpc, trails.get(index), recorded).await;
        results[index] = Some(match done {
            Ok((object, warnings)) => {
                pb::EachResult { result: Some(pb::each_result::Result::Object(object)), warnings }
            }
            Err(refused) => refusal(refused),
        });
    }
    Ok(results.into_iter().map(|result| result.expect("each operation has a result")).collect())
}

/// The request of an operation.
fn request_of(caller: &Caller, operation: pb::EachOperation) -> Result<Request, tonic::Status> {
    let (target, action) = match operation.kind {
        Some(Kind::Create(message)) => create::action(caller, message)?,
        Some(Kind::Update(message)) => update::action(caller, message)?,
        Some(Kind::Patch(message)) => patch::action(caller, message)?,
        Some(Kind::Delete(message)) => delete::action(caller, message)?,
        Some(Kind::Bind(message)) => bind::action(caller, &message)?,
        None => return Err(to_grpc(&Status::bad_request("the operation is empty"))),
    };
    let own = causes(&operation.causes);
    let causes = if own.is_empty() { caller.causes.clone() } else { own };
    Ok(Request {
        user: caller.user.clone(),
        agent: caller.agent.clone(),
        causes,
        fence: caller.fence.clone(),
        stage: None,
        group: None,
        timeout: caller.timeout,
        bound: None,
        target,
        action,
    })
}

/// The HTTP code of an action that succeeds.
fn success_code(action: &Action) -> u16 {
    if matches!(action, Action::Create(..)) { 201 } else { 200 }
}

/// The object and the warnings of an answer.
fn object(resource: &'static Resource, answered: Answered) -> Result<(pb::Object, Vec<String>), Refused> {
    let Answered { answer, warnings, .. } = answered;
    match object_of(resource, answer) {
        Ok(object) => Ok((object, warnings)),
        Err(error) => Err(Refused { status: of_grpc(&error), warnings }),
    }
}

fn refusal(refused: Refused) -> pb::EachResult {
    let json = refused.status.to_json();
    pb::EachResult {
        result: Some(pb::each_result::Result::RefusalJson(json.into())),
        warnings: refused.warnings,
    }
}

/// Records the result of an operation in its trail, if it has one.
async fn record(grpc: &Grpc, trail: Option<&Arc<Trail>>, result: Result<(u16, &pb::Object), &Status>) {
    let Some(trail) = trail else { return };
    let (code, refused) = match result {
        Ok((code, object)) => {
            trail.response_object(0, || object.object());
            (code, None)
        }
        Err(status) => (status.code, Some(status)),
    };
    trail.answered(grpc.pipeline.authorizer(), code, refused).await;
}
