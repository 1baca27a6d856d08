//! Tunnel: whoever runs nodes opens it, and through it the server reaches them.

use super::{Caller, Grpc, Streamed};
use crate::authn::UserInfo;
use crate::authz::{Attributes, Decision, Target};
use crate::error::{of_read, to_grpc};
use crate::limits;
use crate::pipeline::Pipeline;
use crate::tunnel::{self, Link, Outbox, Tunnels};
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
    // Permissions are judged by everything that was answered before the tunnel came.
    door.pipeline.cache().fresh().await.map_err(|error| to_grpc(&of_read(error)))?;
    let (link, outbox) = Link::new();
    claim(door, &caller, &link, nodes.names)?;
    let end = End { tunnels: door.tunnels.clone(), link };
    let stream = messages(door.clone(), caller, up, outbox, end, door.stop.clone());
    Ok(tonic::Response::new(Box::pin(stream)))
}

/// Claims the nodes for a tunnel, if its caller may serve them all and nobody else does.
fn claim(door: &Grpc, caller: &Caller, link: &Arc<Link>, names: Vec<String>) -> Result<(), tonic::Status> {
    let authorizer = door.pipeline.authorizer();
    // A tunnel to nowhere needs the permission for all nodes.
    let refused = match names.is_empty() {
        true => Some(""),
        false => door.tunnels.forbidden(&caller.user, &names),
    };
    if let Some(name) = refused {
        authorizer.check(&asked(&caller.user, name)).map_err(|status| to_grpc(&status))?;
        if !names.is_empty() {
            let text = format!("user {:?} serves its own node only, not {name:?}", caller.user.username);
            return Err(tonic::Status::permission_denied(text));
        }
    }
    door.tunnels.serve(link, &caller.user, names).map_err(|claimed| {
        tracing::warn!(user = caller.user.username, %claimed, "a tunnel is refused");
        tonic::Status::already_exists(claimed.to_string())
    })
}

/// The permission to serve a node.
fn asked<'a>(user: &'a UserInfo, name: &'a str) -> Attributes<'a> {
    let (resource, subresource) = tunnel::RESOURCE;
    let target = Target::Resource { group: "", resource, subresource, namespace: "", name };
    Attributes { user, verb: tunnel::VERB, target }
}

/// Judges by the permissions of a cluster who may serve which node.
pub(crate) fn may_serve(pipeline: Arc<Pipeline>) -> impl Fn(&UserInfo, &str) -> bool + Send + Sync {
    move |user, node| matches!(pipeline.authorizer().decide(&asked(user, node)), Decision::Allow(_))
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
        Some(Up::Nodes(nodes)) => claim(door, caller, link, nodes.names),
        Some(message) => {
            let refused = |violation: crate::tunnel::Violation| Status::bad_request(violation.to_string());
            link.receive(message).map_err(|violation| to_grpc(&refused(violation)))
        }
        None => Err(to_grpc(&Status::bad_request(crate::tunnel::Violation::Empty.to_string()))),
    }
}
