//! Priority and fairness of gRPC calls from the network. A call is classified by its first operation, after its
//! message was read: only the message names the resource. Its work is that of all its operations.

use super::audited::{AuditedMessage, CallPart};
use super::authenticate::Authenticated;
use super::{Grpc, audited};
use http::Uri;
use kstore_access::peer::Peer;
use kstore_api::status::Status;
use kstore_pipeline::fairness::{
    DigestTarget, Entered, ListFacts, RequestDigest, RequestSummary, Seat, Work, list_work, write_work,
};
use kstore_pipeline::pipeline::TOO_MANY;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::to_grpc;
use kstore_storage::limits;

/// Marks a call that runs on seats of a priority level: an extension of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct HasSeat;

/// The answer of a priority level to a call that asks for seats; `None` if it rejects the call.
pub(super) type SeatAnswer = Option<Entered>;

/// Asks the priority level of a call for seats; `None` if the call needs none: calls of components in this
/// process, and the tunnels of nodes.
pub(super) fn ask<M: AuditedMessage>(
    grpc: &Grpc,
    call: &str,
    request: tonic::Request<M>,
) -> (tonic::Request<M>, Option<SeatAnswer>) {
    let (metadata, extensions, message) = request.into_parts();
    let seat_request = (|| {
        let fairness = grpc.pipeline.fairness()?;
        let Authenticated(user) = extensions.get()?;
        if !matches!(extensions.get(), Some(Peer::Tls { .. })) {
            return None;
        }
        let parts = message.parts();
        let first = parts.first()?;
        let reference = first.reference()?;
        let is_namespace = reference.group.is_empty() && reference.resource == "namespaces";
        let target = DigestTarget::Resource {
            group: &reference.group,
            resource: &reference.resource,
            subresource: &reference.subresource,
            namespace: if is_namespace { &reference.name } else { &reference.namespace },
        };
        let classified = fairness.classify(&RequestDigest { user, verb: first.verb(), target });
        let nominal = classified.nominal_seats();
        let works = parts.iter().filter_map(|part| Some(work(grpc, part, part.reference()?, nominal)));
        let work = works.reduce(wider)?;
        let uri = audited::uri_of(call).parse().unwrap_or_else(|_| Uri::default());
        let summary = RequestSummary::new(user, first.verb(), &uri);
        Some(classified.enter(work, first.verb() == "watch", summary))
    })();
    (tonic::Request::from_parts(metadata, extensions, message), seat_request)
}

/// Waits until the call may run.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` if its level rejects it, or it may not run in time.
pub(super) async fn granted(seat_request: SeatAnswer) -> Result<Seat, tonic::Status> {
    let seat = match seat_request {
        Some(Entered::Running(seat)) => Some(seat),
        Some(Entered::Waiting(waiting)) => {
            waiting.granted(limits::REQUEST_TIMEOUT / limits::WAIT_PARTS).await
        }
        None => None,
    };
    seat.ok_or_else(|| to_grpc(&Status::too_many_requests(TOO_MANY, 1)))
}

/// The work of one operation.
fn work(grpc: &Grpc, part: &CallPart, reference: &pb::Ref, nominal: u32) -> Work {
    let cache = grpc.pipeline.cache();
    let kinds = cache.kinds();
    let Some(served) = kinds.lookup(&reference.group, &reference.version, &reference.resource) else {
        return Work::of(1);
    };
    match part.verb() {
        "list" | "watch" => {
            let stored = cache.count(served.resource) as u64;
            let requirements = part.requirements();
            let has_selector = requirements > 0;
            list_work(ListFacts { stored, has_selector, requirements, ..ListFacts::default() }, nominal)
        }
        "get" => Work::of(1),
        _ => {
            let watchers = cache.watchers(served.resource, &reference.namespace, &reference.name) as u64;
            write_work(watchers, nominal)
        }
    }
}

/// The work of operations that run one after the other: the seats of the widest.
fn wider(a: Work, b: Work) -> Work {
    Work {
        seats: a.seats.max(b.seats),
        final_seats: a.final_seats.max(b.final_seats),
        extra: a.extra.max(b.extra),
    }
}
