//! [`NoConnections`]: outbound calls of a server that opens no connection to what its data name, since they are data of another cluster.

use axum::body::Body;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::{Request, Response};
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{Answer, ApiBackend, Call, NoAnswer, Outbound, Unreachable};
use std::sync::Arc;

/// Why nothing is called.
const REFUSED: &str = "this server opens no connections to what imported data name (--outbound none)";

/// Refuses all calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoConnections;

impl Outbound for NoConnections {
    fn post(&self, _: Arc<dyn Lookup>, _: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        ready(Err(NoAnswer(REFUSED.to_owned()))).boxed()
    }

    fn check(&self, _: &dyn Lookup, _: &ApiBackend) -> Result<(), Unreachable> {
        Err(Unreachable::NoSlices)
    }

    fn forward(
        &self,
        _: Arc<dyn Lookup>,
        _: ApiBackend,
        _: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        ready(Err(NoAnswer(REFUSED.to_owned()))).boxed()
    }
}
