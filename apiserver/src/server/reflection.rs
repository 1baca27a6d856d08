//! [`Reflection`]: gRPC server reflection, by which tools such as grpcurl learn the services of a server.

use kstore_proto::kstore::v1::FILE_DESCRIPTOR_SET;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME;
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{Service, ServiceExt as _};

type Inner = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The reflection service. It depends only on the compiled protocol, so all servers of a process without further services share one
/// table of descriptors. The first call builds a table: few clients ask, and a start need not wait for it.
#[derive(Clone)]
pub(super) struct Reflection {
    /// Descriptor sets beside the server's own.
    more: &'static [&'static [u8]],
    /// The table of a server with more of them.
    own: Arc<OnceLock<Inner>>,
}

impl Reflection {
    /// The reflection of the server's services and of those in further descriptor sets.
    pub(super) fn with(more: &'static [&'static [u8]]) -> Self {
        Self { more, own: Arc::default() }
    }

    fn inner(&self) -> Inner {
        static SHARED: OnceLock<Inner> = OnceLock::new();
        let table = if self.more.is_empty() { &SHARED } else { &self.own };
        table.get_or_init(|| build(self.more)).clone()
    }
}

fn build(more: &[&[u8]]) -> Inner {
    let own = tonic_reflection::server::Builder::configure();
    let own = own.register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET);
    let all = more.iter().fold(own, |all, set| all.register_encoded_file_descriptor_set(set));
    BoxCloneSyncService::new(all.build_v1().expect("the descriptors were compiled with this program"))
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
        self.inner().oneshot(request)
    }
}
