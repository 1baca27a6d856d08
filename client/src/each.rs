//! [`Each`]: independent operations in one call. The client collects them; the server executes each like a call of its own.

use crate::client::bounded;
use crate::{ApiError, Client, Gvr, Stored};
use futures::future::BoxFuture;
use kstore_informer::Causes;
use kstore_proto::kstore::v1 as pb;
use pb::each_operation::Kind as Operation;
use pb::each_result::Result as Done;

/// Independent operations of one call: each succeeds or fails alone, and has a revision of its own. The server executes them at the same
/// time and commits them together, so that many small writes cost little more than one.
///
/// The server takes at most 128 operations. The fence of the client applies to each.
///
/// ```no_run
/// use kstore_client::{ApiError, Client, Each};
/// use kstore_informer::Causes;
///
/// /// Binds pods; prints those that the server refuses.
/// async fn bind_all(client: &Client, pods: &[(&str, &str)]) -> Result<(), ApiError> {
///     let each = pods.iter().fold(Each::new(client), |each, (pod, node)| each.bind("default", pod, "", node, &Causes::default()));
///     for ((pod, _), result) in pods.iter().zip(each.execute().await?) {
///         if let Err(refused) = result {
///             eprintln!("{pod}: {refused}");
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "nothing happens before `execute`"]
pub struct Each {
    client: Client,
    operations: Vec<pb::EachOperation>,
}

impl Each {
    /// A call without operations.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), operations: Vec::new() }
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Binds a pod with this uid (empty for any) to a node, like [`Api::bind`](crate::Api::bind). `causes` are those of this bind alone;
    /// without any, those of the client.
    pub fn bind(self, ns: &str, pod: &str, uid: &str, node: &str, causes: &Causes) -> Self {
        let message =
            pb::BindRequest { namespace: ns.into(), pod: pod.into(), uid: uid.into(), node: node.into() };
        self.push(Operation::Bind(message), causes)
    }

    /// Creates an object from JSON text, like [`DynamicApi::create_text`](crate::DynamicApi::create_text), for the causes of the client.
    pub fn create_text(self, gvr: &Gvr, ns: &str, name: &str, json: &str) -> Self {
        let message = pb::CreateRequest {
            r#ref: Some(gvr.reference(ns, name, "")),
            json: json.to_owned().into(),
            field_validation: self.client.fields.into(),
            ..Default::default()
        };
        self.push(Operation::Create(message), &Causes::default())
    }

    /// Executes the operations. Returns what each has stored, or why it failed, in their order.
    ///
    /// # Errors
    ///
    /// The call failed as a whole. Unless the error is [`ApiError::Transport`], no operation was executed.
    pub fn execute(self) -> BoxFuture<'static, Result<Vec<Result<Stored, ApiError>>, ApiError>> {
        Box::pin(async move {
            let count = self.operations.len();
            let message = pb::EachRequest { operations: self.operations };
            let mut grpc = self.client.grpc();
            let done = bounded(grpc.each(self.client.request(message))).await?;
            let results: Vec<_> = done.results.into_iter().map(result).collect();
            match results.len() == count {
                true => Ok(results),
                false => {
                    Err(ApiError::Transport(format!("{count} operations have {} results", results.len())))
                }
            }
        })
    }

    fn push(mut self, kind: Operation, causes: &Causes) -> Self {
        let causes = if causes.is_empty() { String::new() } else { causes.to_string() };
        self.operations.push(pb::EachOperation { kind: Some(kind), causes });
        self
    }
}

fn result(result: pb::EachResult) -> Result<Stored, ApiError> {
    match result.result {
        Some(Done::Object(object)) => Ok(Stored(object.into())),
        Some(Done::RefusalJson(json)) => Err(match serde_json::from_slice(&json) {
            Ok(status) => ApiError::Status(Box::new(status)),
            Err(error) => ApiError::json(error),
        }),
        None => Err(ApiError::Transport("an operation has no result".to_owned())),
    }
}
