//! Independent operations of one call: each is served like a request of its own, and their commits are executed in groups.

use super::transact::is_operation;
use super::{Answered, Pipeline, Refused, heavy};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kstore_access::audit::{self, Trail};
use kstore_api::status::Status;
use kstore_registry::request::Request;
use kstore_storage::limits;
use kstore_storage::storage::CommitGroup;
use std::sync::Arc;

/// One of several independent operations.
pub struct EachOperation {
    /// The operation as a request.
    pub request: Request,
    /// The audit trail of the operation, if it is recorded.
    pub trail: Option<Arc<Trail>>,
}

impl Pipeline {
    /// Serves independent operations at the same time. Each is authorized, admitted, validated and answered as if it came alone, and has a
    /// revision of its own. Returns their results in order. With `has_seat` they run on seats of a priority level, and need no further
    /// permits. Boxed here, so that no crate above generates the code of all requests again.
    ///
    /// # Errors
    /// 400 if there are none or more than [`limits::EACH_OPERATIONS`]; 413 if decoding all of them would take too much memory. Nothing was
    /// done then.
    pub fn serve_each(
        &self,
        operations: Vec<EachOperation>,
        has_seat: bool,
    ) -> BoxFuture<'_, Result<Vec<Result<Answered, Refused>>, Status>> {
        Box::pin(async move {
            let (count, limit) = (operations.len(), limits::EACH_OPERATIONS);
            if !(1..=limit).contains(&count) {
                return Err(Status::bad_request(format!(
                    "a call has 1 to {limit} operations, this one has {count}"
                )));
            }
            let requests: Vec<_> = operations.iter().map(|operation| &operation.request).collect();
            heavy::check_group(&requests)?;
            let is_heavy = heavy::is_heavy_group(self.cache(), &self.admission, &requests);
            let permits = is_heavy.then(|| heavy::permits_of_group(self.cache(), &requests));
            let group = CommitGroup::new();
            let member = |EachOperation { request, trail }: EachOperation| {
                let request = Request { group: Some(group.clone()), ..request };
                let serving = self.serve_operation(request, has_seat);
                match trail {
                    None => serving.boxed(),
                    Some(trail) => audit::scope(trail, serving).boxed(),
                }
            };
            let members = operations.into_iter().map(member).collect();
            let serving = group.run(&**self.cache().storage(), members);
            Ok(match permits {
                None => serving.await,
                Some(permits) => self.heavy.run(permits, serving).await,
            })
        })
    }

    async fn serve_operation(&self, request: Request, has_seat: bool) -> Result<Answered, Refused> {
        if !is_operation(&request.target, &request.action) {
            let text = "an operation creates, updates, patches or deletes one stored object";
            return Err(Status::bad_request(text).into());
        }
        self.serve_measured(request, has_seat).await
    }
}
