//! [`Reflection`]: gRPC server reflection, by which tools such as grpcurl learn the services of a server.

use kstore_proto::kstore::v1::FILE_DESCRIPTOR_SET;
use std::convert::Infallible;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME;
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{Service, ServiceExt as _};

type Inner = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The reflection service. It depends only on the compiled protocol, so all servers of a process share one
/// table of descriptors, which the first call builds: few clients ask, and a start need not wait for it.
#[derive(Clone)]
pub(super) struct Reflection;

/// The service behind [`Reflection`].
fn shared() -> Inner {
    static SHARED: OnceLock<Inner> = OnceLock::new();
    let build = || {
        let service = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors were compiled with this program");
        BoxCloneSyncService::new(service)
    };
    SHARED.get_or_init(build).clone()
}

impl NamedService for Reflection {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for Reflection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Oneshot<Inner, Request<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        shared().oneshot(request)
    }
}
