//! The gRPC call Tunnel: a program that runs nodes opens it, and the server reaches these nodes through it.

use super::{Caller, Grpc, Streamed};
use crate::tunnel::{self, Link, Outbox, Tunnels};
use futures::StreamExt as _;
use kstore_access::authz::{self, Attributes, Decision, Mode, More, Target};
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Pipeline;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::{of_read, to_grpc};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use pb::tunnel_down::Message as Down;
use pb::tunnel_up::Message as Up;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

/// Bytes of the longest name of a node.
const NODE_NAME_BYTES: usize = 253;

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<Streaming<pb::TunnelUp>>,
) -> Result<tonic::Response<Streamed<pb::TunnelDown>>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    // Permissions are checked against everything that was answered before the tunnel arrived.
    grpc.pipeline.cache().fresh().await.map_err(|error| to_grpc(&of_read(error)))?;
    may_serve_any(grpc, &caller.user).map_err(|status| to_grpc(&status))?;
    let mut up = request.into_inner();
    let hello = tokio::time::timeout(limits::TUNNEL_HELLO, up.message()).await;
    let late = || to_grpc(&Status::timeout("no message arrived on the tunnel", 1));
    let nodes = match hello.map_err(|_| late())?? {
        Some(pb::TunnelUp { message: Some(Up::Nodes(nodes)) }) => nodes,
        Some(_) | None => {
            let text = "the first message on a tunnel must name its nodes";
            return Err(to_grpc(&Status::bad_request(text)));
        }
    };
    let (link, outbox) = Link::new();
    let refused = claim(grpc, &caller, &link, nodes.names).await?;
    let end = TunnelGuard { tunnels: grpc.tunnels.clone(), link };
    let stream = messages(grpc.clone(), caller, up, outbox, end, grpc.stop.clone());
    let stream = futures::stream::iter(refused.map(Ok)).chain(stream);
    Ok(tonic::Response::new(Box::pin(stream)))
}

/// Refuses callers that may serve no node at all, before a message names nodes.
///
/// # Errors
/// 403 for the permission to serve all nodes.
fn may_serve_any(grpc: &Grpc, user: &UserInfo) -> Result<(), Status> {
    let authorizer = grpc.pipeline.authorizer();
    // Other modes do not tell which names they allow, so each name is asked for.
    let tells = |mode: &Mode| matches!(mode, Mode::Node | Mode::Rbac | Mode::AlwaysDeny);
    let (resource, subresource) = tunnel::RESOURCE;
    let rules = authorizer.policy();
    let may = tunnel::is_node(user)
        || !authorizer.modes().iter().all(tells)
        || rules.rules_of(user, "").any(|rule| rule.allows_some(tunnel::VERB, ("", resource, subresource)));
    if may { Ok(()) } else { check(grpc, &permission(user, "")) }
}

/// Checks the form of a list of nodes before anything is done for each of them.
fn check_names(names: &[String]) -> Result<(), Status> {
    if names.len() > limits::TUNNEL_NODES {
        let text =
            format!("a tunnel names {} nodes: at most {} are allowed", names.len(), limits::TUNNEL_NODES);
        return Err(Status::bad_request(text));
    }
    let mut known = BTreeSet::new();
    for name in names {
        let problem = match name.as_str() {
            "" => "is empty",
            name if name.len() > NODE_NAME_BYTES => "is too long",
            name if !known.insert(name) => "occurs twice",
            _ => continue,
        };
        return Err(Status::bad_request(format!("the node name {name:.64?} of a tunnel {problem}")));
    }
    Ok(())
}

/// Claims nodes for a tunnel. Returns a message with the refused nodes: those that the caller may not serve,
/// and those that another user serves. The other nodes are served.
///
/// # Errors
/// The refusal of the first node, if all nodes are refused; more than [`limits::TUNNEL_REFUSALS`] refusals; a list with
/// empty names, repeated names, or too many of them.
async fn claim(
    grpc: &Grpc,
    caller: &Caller,
    link: &Arc<Link>,
    names: Vec<String>,
) -> Result<Option<pb::TunnelDown>, tonic::Status> {
    check_names(&names).map_err(|status| to_grpc(&status))?;
    if names.is_empty() {
        // A tunnel without nodes requires the permission for all nodes.
        let permission = permission(&caller.user, "");
        check(grpc, &permission).map_err(|status| to_grpc(&status))?;
    }
    let wanted = names.len();
    let (mut allowed, mut refused) = (Vec::new(), Vec::new());
    for (index, name) in names.into_iter().enumerate() {
        if index % limits::TUNNEL_NODES_AT_ONCE == limits::TUNNEL_NODES_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        if grpc.tunnels.allows(&caller.user, &name) {
            allowed.push(name);
            continue;
        }
        let status = forbidden_status(grpc, caller, &name);
        if refused.len() == limits::TUNNEL_REFUSALS {
            return Err(too_many_refusals(&status));
        }
        refused.push((name, status));
    }
    let claimed = grpc.tunnels.serve(link, &caller.user, allowed);
    if refused.len() + claimed.len() > limits::TUNNEL_REFUSALS && refused.len() + claimed.len() < wanted {
        let first = claimed.first().map(|claimed| tonic::Status::already_exists(claimed.to_string()));
        return Err(too_many_refusals(first.as_ref().unwrap_or(&refused[0].1)));
    }
    let is_all = refused.len() + claimed.len() == wanted;
    refused.extend(claimed.into_iter().take(limits::TUNNEL_REFUSALS - refused.len()).map(|claimed| {
        let status = tonic::Status::already_exists(claimed.to_string());
        (claimed.node, status)
    }));
    let Some((node, status)) = refused.first() else { return Ok(None) };
    tracing::warn!(
        user = caller.user.username,
        node,
        reason = status.message(),
        refused = refused.len(),
        wanted,
        "refused nodes of a tunnel"
    );
    if is_all {
        return Err(status.clone());
    }
    let nodes = refused
        .into_iter()
        .map(|(name, status)| pb::RefusedNode { name, reason: status.message().to_owned() })
        .collect();
    Ok(Some(pb::TunnelDown { message: Some(Down::Refused(pb::TunnelRefusal { nodes })) }))
}

/// The end of a tunnel with more refused nodes than one message can name. `last` is one of the refusals.
fn too_many_refusals(last: &tonic::Status) -> tonic::Status {
    let most = limits::TUNNEL_REFUSALS;
    let text = format!("more than {most} nodes of the tunnel are refused, for example: {}", last.message());
    tonic::Status::new(last.code(), text)
}

/// The refusal for a node that the caller may not serve.
fn forbidden_status(grpc: &Grpc, caller: &Caller, name: &str) -> tonic::Status {
    match check(grpc, &permission(&caller.user, name)) {
        Err(status) => to_grpc(&status),
        Ok(()) => {
            let text = format!("user {:?} serves its own node only, not {name:?}", caller.user.username);
            tonic::Status::permission_denied(text)
        }
    }
}

/// Checks a permission without waiting: a permission that only a webhook would grant is refused. The
/// permission is checked again when a stream to a node is opened, and that code cannot wait.
fn check(grpc: &Grpc, permission: &Attributes<'_>) -> Result<(), Status> {
    match grpc.pipeline.authorizer().decide_now(permission) {
        Decision::Allow(_) => Ok(()),
        Decision::NoOpinion(why) | Decision::Deny(why) => Err(authz::forbidden(permission, &why)),
    }
}

/// The permission to serve a node.
fn permission<'a>(user: &'a UserInfo, name: &'a str) -> Attributes<'a> {
    let (resource, subresource) = tunnel::RESOURCE;
    let target = Target::Resource { group: "", resource, subresource, namespace: "", name };
    Attributes { user, verb: tunnel::VERB, target, more: More::default() }
}

/// Returns a function that decides by the permissions of the cluster whether a user may serve a node.
pub(crate) fn may_serve(pipeline: Arc<Pipeline>) -> impl Fn(&UserInfo, &str) -> bool + Send + Sync {
    move |user, node| matches!(pipeline.authorizer().decide_now(&permission(user, node)), Decision::Allow(_))
}

/// Guard that ends the tunnel when the stream of its messages is dropped.
struct TunnelGuard {
    tunnels: Arc<Tunnels>,
    link: Arc<Link>,
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.tunnels.end(&self.link);
    }
}

fn messages(
    grpc: Grpc,
    caller: Caller,
    mut up: Streaming<pb::TunnelUp>,
    mut outbox: Outbox,
    end: TunnelGuard,
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
                received = up.message() => match received {
                    Ok(Some(message)) => match receive(&grpc, &caller, &end.link, message).await {
                        Ok(Some(answer)) => yield Ok(answer),
                        Ok(None) => {}
                        Err(refused) => {
                            yield Err(refused);
                            break;
                        }
                    },
                    Ok(None) | Err(_) => break,
                },
                Some(message) = outbox.recv() => yield Ok(message),
            }
        }
        drop(end);
    }
}

async fn receive(
    grpc: &Grpc,
    caller: &Caller,
    link: &Arc<Link>,
    message: pb::TunnelUp,
) -> Result<Option<pb::TunnelDown>, tonic::Status> {
    match message.message {
        Some(Up::Nodes(nodes)) => claim(grpc, caller, link, nodes.names).await,
        Some(message) => {
            let refused = |violation: crate::tunnel::Violation| Status::bad_request(violation.to_string());
            link.receive(message).map_err(|violation| to_grpc(&refused(violation)))?;
            Ok(None)
        }
        None => Err(to_grpc(&Status::bad_request(crate::tunnel::Violation::Empty.to_string()))),
    }
}
