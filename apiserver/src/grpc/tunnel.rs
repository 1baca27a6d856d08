//! Tunnel: whoever runs nodes opens it, and through it the server reaches them.

use super::{Caller, Grpc, Streamed};
use crate::authz::{Attributes, Decision, Target};
use crate::error::to_grpc;
use crate::limits;
use crate::tunnel::{Link, Outbox, Tunnels};
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use pb::tunnel_up::Message as Up;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

pub(super) async fn serve(
    door: &Grpc,
    request: tonic::Request<Streaming<pb::TunnelUp>>,
) -> Result<tonic::Response<Streamed<pb::TunnelDown>>, tonic::Status> {
    let caller = door.caller(&request).await?;
    let mut up = request.into_inner();
    let hello = tokio::time::timeout(limits::TUNNEL_HELLO, up.message()).await;
    let late = || to_grpc(&Status::timeout("nothing came up the tunnel", 1));
    let nodes = match hello.map_err(|_| late())?? {
        Some(pb::TunnelUp { message: Some(Up::Nodes(nodes)) }) => nodes,
        Some(_) | None => {
            let text = "a tunnel begins with the nodes that it reaches";
            return Err(to_grpc(&Status::bad_request(text)));
        }
    };
    may_serve(door, &caller, &nodes.names)?;
    let (link, outbox) = Link::new();
    door.tunnels.serve(&link, nodes.names);
    let end = End { tunnels: door.tunnels.clone(), link };
    let stream = messages(door.clone(), caller, up, outbox, end, door.stop.clone());
    Ok(tonic::Response::new(Box::pin(stream)))
}

/// Reaching a node is a kubelet's business: whoever may update its status may.
fn may_serve(door: &Grpc, caller: &Caller, names: &[String]) -> Result<(), tonic::Status> {
    let authorizer = door.pipeline.authorizer();
    let asked = |name| {
        let (group, resource, subresource, namespace) = ("", "nodes", "status", "");
        let target = Target::Resource { group, resource, subresource, namespace, name };
        Attributes { user: &caller.user, verb: "update", target }
    };
    if matches!(authorizer.decide(&asked("")), Decision::Allow(_)) {
        return Ok(());
    }
    let refused = match names.iter().find_map(|name| authorizer.check(&asked(name)).err()) {
        Some(refused) => Some(refused),
        // A tunnel to nowhere is nobody's right.
        None if names.is_empty() => authorizer.check(&asked("")).err(),
        None => None,
    };
    refused.map_or(Ok(()), |status| Err(to_grpc(&status)))
}

/// Ends the tunnel with the stream of its messages, however that ends.
struct End {
    tunnels: Arc<Tunnels>,
    link: Arc<Link>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.tunnels.end(&self.link);
    }
}

fn messages(
    door: Grpc,
    caller: Caller,
    mut up: Streaming<pb::TunnelUp>,
    mut outbox: Outbox,
    end: End,
    stop: CancellationToken,
) -> impl futures::Stream<Item = Result<pb::TunnelDown, tonic::Status>> + Send {
    async_stream::stream! {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    yield Err(to_grpc(&Status::service_unavailable("the server is stopping")));
                    break;
                }
                came = up.message() => match came {
                    Ok(Some(message)) => {
                        if let Err(refused) = receive(&door, &caller, &end.link, message) {
                            yield Err(refused);
                            break;
                        }
                    }
                    Ok(None) | Err(_) => break,
                },
                Some(message) = outbox.recv() => yield Ok(message),
            }
        }
        drop(end);
    }
}

fn receive(
    door: &Grpc,
    caller: &Caller,
    link: &Arc<Link>,
    message: pb::TunnelUp,
) -> Result<(), tonic::Status> {
    match message.message {
        Some(Up::Nodes(nodes)) => {
            may_serve(door, caller, &nodes.names)?;
            door.tunnels.serve(link, nodes.names);
            Ok(())
        }
        Some(message) => {
            let refused = |violation: crate::tunnel::Violation| Status::bad_request(violation.to_string());
            link.receive(message).map_err(|violation| to_grpc(&refused(violation)))
        }
        None => Err(to_grpc(&Status::bad_request(crate::tunnel::Violation::Empty.to_string()))),
    }
}
