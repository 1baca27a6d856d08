//! Accepts the calls of an autoscaler. They have no TLS and no credentials, so the listener is on loopback.

use super::provider::Provider;
use crate::args::ListenAddress;
use crate::listen;
use anyhow::bail;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kstore_api::version::Minor;
use kstore_client::Client;
use prost::Message;
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

/// The flag that opens the listener.
const FLAG: &str = "--autoscaler-listen";
/// The path of a call before the name of its method.
const SERVICE: &str = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/";
/// Open connections; an autoscaler has one. Further ones wait.
const CONNECTIONS: usize = 64;
/// Wait after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Binds the listener.
///
/// # Errors
/// The address is not on loopback, or cannot be bound.
pub(crate) async fn bind(address: &ListenAddress) -> anyhow::Result<TcpListener> {
    let resolved = listen::resolve(address, FLAG).await?;
    if !resolved.ip().is_loopback() {
        bail!(
            "{FLAG} {}:{}: calls have no TLS, so the address must be on loopback, such as 127.0.0.1:8086",
            address.host,
            address.port
        );
    }
    listen::bind(address, FLAG).await
}

/// Serves calls until `stop`. `client` reads and writes the groups.
pub(crate) async fn serve(listener: TcpListener, client: Client, minor: Minor, stop: CancellationToken) {
    let provider = Provider::new(client, minor);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let provider = provider.clone();
                    connections.spawn(async move {
                        let calls = service_fn(move |request| answer(provider.clone(), request));
                        let builder = Builder::new(TokioExecutor::new()).http2_only();
                        // A connection that breaks is the client's matter.
                        let _ = builder.serve_connection(TokioIo::new(stream), calls).await;
                    });
                }
                // Such as too many open files: others have to close theirs first.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of an autoscaler");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn answer(provider: Provider, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(dispatch(provider, request).await)
}

/// Carries out the call that a request names.
async fn dispatch(provider: Provider, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let p = provider;
    match path.strip_prefix(SERVICE).unwrap_or_default() {
        "NodeGroups" => unary(request, |m| p.node_groups(m)).await,
        "NodeGroupForNode" => unary(request, |m| p.node_group_for_node(m)).await,
        "NodeGroupTargetSize" => unary(request, |m| p.target_size(m)).await,
        "NodeGroupIncreaseSize" => unary(request, |m| p.increase_size(m)).await,
        "NodeGroupDecreaseTargetSize" => unary(request, |m| p.decrease_target_size(m)).await,
        "NodeGroupDeleteNodes" => unary(request, |m| p.delete_nodes(m)).await,
        "NodeGroupNodes" => unary(request, |m| p.nodes(m)).await,
        "NodeGroupTemplateNodeInfo" => unary(request, |m| p.template(m)).await,
        "NodeGroupGetOptions" => unary(request, |m| p.options(m)).await,
        "PricingNodePrice" => unary(request, |m| p.node_price(m)).await,
        "GPULabel" => unary(request, |m| p.gpu_label(m)).await,
        "GetAvailableGPUTypes" | "Refresh" | "Cleanup" => unary(request, |m| p.nothing(m)).await,
        _ => Status::unimplemented(format!("{path} is not served")).into_http(),
    }
}

/// A call with one request and one answer.
struct UnaryCall<C>(Option<C>);

impl<Q, A, C, F> UnaryService<Q> for UnaryCall<C>
where
    A: 'static,
    C: FnOnce(Q) -> F,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<'static, Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let call = self.0.take().expect("a stream of HTTP/2 has one call");
        call(request.into_inner()).map_ok(tonic::Response::new).boxed()
    }
}

/// Decodes the request, carries out the call, and encodes its answer.
async fn unary<Q, A, C, F>(request: Request<Incoming>, call: C) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    C: FnOnce(Q) -> F,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(UnaryCall(Some(call)), request).await
}
