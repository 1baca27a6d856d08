//! [`Transaction`]: several writes at one revision, or none of them. The client collects operations; the
//! server evaluates them in order.

use crate::calls::{revision, wire};
use crate::client::bounded;
use crate::typed::Kind;
use crate::{ApiError, Client, DeleteParams, Gvr, Patch};
use futures::future::BoxFuture;
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;
use pb::operation::Kind as Operation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The reason of the cause that names the refused operation.
const OPERATION_REFUSED: &str = "OperationRefused";

/// Operations that the server executes together: all at one revision, or none. The server evaluates each like a single call; each sees the
/// results of earlier ones. Other writers cause a failure only if an operation or a check names a `resourceVersion` or
/// uid that has changed.
///
/// The server takes at most 128 operations. In all calls, `ns` is empty for cluster-scoped resources.
///
/// ```no_run
/// use k8s_openapi::api::{core::v1::ConfigMap, coordination::v1::Lease};
/// use kstore_client::{Check, Client, DeleteParams, Patch, Transaction, TransactionError};
///
/// /// Moves a task from one queue to another: no reader sees it in both or in none.
/// async fn hand_over(client: &Client, task: &ConfigMap) -> Result<(), TransactionError> {
///     let done = Transaction::new(client)
///         .check::<Lease>("queues", "office", Check::Present)
///         .create("queue-b", task)
///         .delete::<ConfigMap>("queue-a", "task-1", &DeleteParams::default())
///         .patch::<ConfigMap>("queue-b", "index", "", &Patch::Merge(serde_json::json!({ "data": { "task-1": "new" } })))
///         .commit()
///         .await?;
///     println!("task {} created at revision {}", done.value(1)?["metadata"]["name"], done.revision());
///     Ok(())
/// }
/// ```
#[must_use = "nothing happens before `commit`"]
pub struct Transaction {
    client: Client,
    operations: Vec<Operation>,
    dry_run: bool,
    /// The error of the first operation that could not be encoded.
    encode_error: Option<TransactionError>,
}

/// A condition on an object at the revision of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The object does not exist.
    Absent,
    /// The object exists.
    Present,
    /// The object exists with this uid.
    Uid(String),
    /// The object exists with this `resourceVersion`.
    At(Revision),
}

/// The result of a transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    revision: Revision,
    objects: Vec<bytes::Bytes>,
    warnings: Vec<String>,
}

/// The reason why a transaction failed. Nothing was written, unless the error is [`ApiError::Transport`].
#[derive(Debug, thiserror::Error)]
#[error("{}{error}", .operation.map(|index| format!("operation {index}: ")).unwrap_or_default())]
pub struct TransactionError {
    /// The index of the refused operation; `None` if the whole transaction failed.
    pub operation: Option<usize>,
    /// The error.
    pub error: ApiError,
}

impl Transaction {
    /// A transaction without operations. Causes and fence of `client` apply to the whole transaction.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), operations: Vec::new(), dry_run: false, encode_error: None }
    }

    /// Makes the transaction a dry run: the server does everything except storing.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Creates an object. The name may be empty if the object has a `generateName`.
    pub fn create<K: Kind>(self, ns: &str, object: &K) -> Self {
        let name = object.metadata().name.clone().unwrap_or_default();
        self.create_json(&Gvr::of::<K>(), ns, &name, object)
    }

    /// Creates an object of a resource that is known only at run time.
    pub fn create_value(self, gvr: &Gvr, ns: &str, object: &Value) -> Self {
        self.create_json(gvr, ns, text(object, "name"), object)
    }

    /// Replaces an object, or only a subresource of it (`status`; else empty). A `resourceVersion` in the
    /// object must be the newest at the commit.
    pub fn update<K: Kind>(self, object: &K, subresource: &str) -> Self {
        let ObjectMeta { namespace, name, .. } = object.metadata();
        let (ns, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        self.update_json(&Gvr::of::<K>(), ns, name, subresource, object)
    }

    /// Replaces an object of a resource that is known only at run time, like [`Transaction::update`].
    pub fn update_value(self, gvr: &Gvr, object: &Value, subresource: &str) -> Self {
        self.update_json(gvr, text(object, "namespace"), text(object, "name"), subresource, object)
    }

    /// Patches an object, or only a subresource of it (`status`, `scale`; else empty).
    pub fn patch<K: Resource>(self, ns: &str, name: &str, subresource: &str, patch: &Patch) -> Self {
        self.patch_value(&Gvr::of::<K>(), ns, name, subresource, patch)
    }

    /// Patches an object of a resource that is known only at run time, like [`Transaction::patch`].
    pub fn patch_value(self, gvr: &Gvr, ns: &str, name: &str, subresource: &str, patch: &Patch) -> Self {
        let (kind, document, force) = patch.parts();
        self.push(document, |json| {
            Operation::Patch(pb::PatchRequest {
                r#ref: Some(gvr.reference(ns, name, subresource)),
                r#type: kind.into(),
                patch: json,
                force,
                ..Default::default()
            })
        })
    }

    /// Deletes an object, or starts its deletion.
    pub fn delete<K: Resource>(self, ns: &str, name: &str, params: &DeleteParams) -> Self {
        self.delete_value(&Gvr::of::<K>(), ns, name, params)
    }

    /// Deletes an object of a resource that is known only at run time, or starts its deletion.
    pub fn delete_value(self, gvr: &Gvr, ns: &str, name: &str, params: &DeleteParams) -> Self {
        let reference = Some(gvr.reference(ns, name, ""));
        self.push(&params.options(), |options_json| {
            Operation::Delete(pb::DeleteRequest { r#ref: reference, options_json })
        })
    }

    /// Binds a pod with this uid to a node, like [`Api::bind`](crate::Api::bind).
    pub fn bind(self, ns: &str, pod: &str, uid: &str, node: &str) -> Self {
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let metadata = json!({ "namespace": ns, "name": pod, "uid": uid });
        let binding =
            json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target });
        let reference = Some(Gvr::of::<Pod>().reference(ns, pod, "binding"));
        self.push(&binding, |json| {
            Operation::Create(pb::CreateRequest { r#ref: reference, json, ..Default::default() })
        })
    }

    /// Adds a condition on an object that must hold at the revision of the transaction.
    pub fn check<K: Resource>(self, ns: &str, name: &str, check: Check) -> Self {
        self.check_value(&Gvr::of::<K>(), ns, name, check)
    }

    /// Adds a condition on an object of a resource that is known only at run time.
    pub fn check_value(mut self, gvr: &Gvr, ns: &str, name: &str, check: Check) -> Self {
        let mut message = pb::Check { r#ref: Some(gvr.reference(ns, name, "")), ..Default::default() };
        match check {
            Check::Absent => message.absent = true,
            Check::Present => {}
            Check::Uid(uid) => message.uid = uid,
            Check::At(revision) => message.revision = wire(revision),
        }
        self.operations.push(Operation::Check(message));
        self
    }

    /// Commits the transaction. On return it is durable.
    ///
    /// # Errors
    ///
    /// The first error and the index of its operation.
    pub fn commit(self) -> BoxFuture<'static, Result<Committed, TransactionError>> {
        Box::pin(async move {
            if let Some(error) = self.encode_error {
                return Err(error);
            }
            let operations = self.operations.into_iter().map(|kind| pb::Operation { kind: Some(kind) });
            let message = pb::TransactRequest { operations: operations.collect(), dry_run: self.dry_run };
            let mut grpc = self.client.grpc();
            let done = bounded(grpc.transact(self.client.request(message))).await.map_err(of_refusal)?;
            Ok(Committed {
                revision: revision(done.revision),
                objects: done.objects.into_iter().map(|object| object.json).collect(),
                warnings: done.warnings,
            })
        })
    }

    fn create_json(self, gvr: &Gvr, ns: &str, name: &str, object: &impl Serialize) -> Self {
        let reference = Some(gvr.reference(ns, name, ""));
        self.push(object, |json| {
            Operation::Create(pb::CreateRequest { r#ref: reference, json, ..Default::default() })
        })
    }

    fn update_json(
        self,
        gvr: &Gvr,
        ns: &str,
        name: &str,
        subresource: &str,
        object: &impl Serialize,
    ) -> Self {
        let reference = Some(gvr.reference(ns, name, subresource));
        self.push(object, |json| {
            Operation::Update(pb::UpdateRequest { r#ref: reference, json, ..Default::default() })
        })
    }

    fn push(mut self, document: &impl Serialize, operation: impl FnOnce(bytes::Bytes) -> Operation) -> Self {
        match serde_json::to_vec(document) {
            Ok(json) => self.operations.push(operation(json.into())),
            Err(error) => {
                let operation = Some(self.operations.len());
                let error = ApiError::json(error);
                self.encode_error.get_or_insert(TransactionError { operation, error });
            }
        }
        self
    }
}

impl Committed {
    /// The revision of all writes; zero after a dry run.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The server's warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The object of the operation at `index`, in its state after the whole transaction. For a deletion of a
    /// kind that returns no object this is a `Status`.
    ///
    /// # Errors
    ///
    /// [`ApiError::Json`] if the object has another type, or the operation is a check or does not exist.
    pub fn object<K: DeserializeOwned>(&self, index: usize) -> Result<K, TransactionError> {
        let json = self.objects.get(index).map_or(&[][..], |json| json);
        let encode_error = |error| TransactionError { operation: Some(index), error: ApiError::json(error) };
        kstore_api::lenient::from_slice(json).map_err(encode_error)
    }

    /// The object of the operation at `index` as a JSON value, like [`Committed::object`].
    ///
    /// # Errors
    ///
    /// [`ApiError::Json`] if the operation is a check or does not exist.
    pub fn value(&self, index: usize) -> Result<Value, TransactionError> {
        self.object(index)
    }
}

/// The error of a refused transaction. The field of the last cause names the refused operation:
/// `operations[2]`.
fn of_refusal(error: ApiError) -> TransactionError {
    let cause = error.causes().last().filter(|cause| cause.reason == OPERATION_REFUSED);
    let index = cause.and_then(|cause| cause.field.strip_prefix("operations[")?.strip_suffix(']'));
    TransactionError { operation: index.and_then(|index| index.parse().ok()), error }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
