//! [`Transaction`]: several writes at one revision, or none of them. Collects operations; the server judges them in order.

use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;
use pb::operation::Kind as Operation;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    ApiError, Client, DeleteParams, Gvr, Patch,
    calls::{revision, wire},
    client::bounded,
    typed::Kind,
};

/// The reason of the cause that names the operation which was refused.
const OPERATION_REFUSED: &str = "OperationRefused";

/// Operations that are carried out together: all, at one revision, or none. Each is judged as if it came alone, and sees what
/// earlier ones made. Other writers do not make it fail, except where an operation or a check names a `resourceVersion` or
/// uid that is not true any more.
///
/// The server takes at most 128 operations. Everywhere, `ns` is empty for resources without namespaces.
///
/// ```no_run
/// use k8s_openapi::api::{core::v1::ConfigMap, coordination::v1::Lease};
/// use kstore_client::{Check, Client, DeleteParams, Patch, Transaction, TransactionError};
///
/// /// Moves a task from one queue to another: nobody ever sees it in both, or in none.
/// async fn hand_over(client: &Client, task: &ConfigMap) -> Result<(), TransactionError> {
///     let done = Transaction::new(client)
///         .check::<Lease>("queues", "office", Check::Present)
///         .create("queue-b", task)
///         .delete::<ConfigMap>("queue-a", "task-1", &DeleteParams::default())
///         .patch::<ConfigMap>("queue-b", "index", "", &Patch::Merge(serde_json::json!({ "data": { "task-1": "new" } })))
///         .commit()
///         .await?;
///     println!("task {} is there at revision {}", done.value(1)?["metadata"]["name"], done.revision());
///     Ok(())
/// }
/// ```
#[must_use = "nothing happens before `commit`"]
pub struct Transaction {
    client: Client,
    operations: Vec<Operation>,
    dry_run: bool,
    /// The first operation that could not be written down, and why.
    unfit: Option<TransactionError>,
}

/// What must hold for an object at the revision of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// There is no such object.
    Absent,
    /// There is one.
    Present,
    /// There is one, of this uid.
    Uid(String),
    /// There is one, and this is its `resourceVersion`.
    At(Revision),
}

/// What a transaction did.
#[derive(Clone, Debug)]
pub struct Committed {
    revision: Revision,
    objects: Vec<bytes::Bytes>,
    warnings: Vec<String>,
}

/// Why a transaction was not carried out. Nothing was written, unless the error is [`ApiError::Transport`].
#[derive(Debug, thiserror::Error)]
#[error("{}{error}", .operation.map(|index| format!("operation {index}: ")).unwrap_or_default())]
pub struct TransactionError {
    /// The operation that was refused, if it was one and not the transaction as a whole.
    pub operation: Option<usize>,
    /// Why.
    pub error: ApiError,
}

impl Transaction {
    /// Without operations yet. Causes and the fence of `client` hold for the whole transaction.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), operations: Vec::new(), dry_run: false, unfit: None }
    }

    /// Does everything but store.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Creates an object. Its name may be empty if it has a `generateName`.
    pub fn create<K: Kind>(self, ns: &str, object: &K) -> Self {
        let name = object.metadata().name.clone().unwrap_or_default();
        self.create_json(&Gvr::of::<K>(), ns, &name, object)
    }

    /// Creates an object of a resource that is known only at run time.
    pub fn create_value(self, gvr: &Gvr, ns: &str, object: &Value) -> Self {
        self.create_json(gvr, ns, text(object, "name"), object)
    }

    /// Replaces an object, or with a subresource (`status`; else empty) that part of it. A `resourceVersion` in it must be the
    /// newest when the transaction is carried out.
    pub fn update<K: Kind>(self, object: &K, subresource: &str) -> Self {
        let ObjectMeta { namespace, name, .. } = object.metadata();
        let (ns, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        self.update_json(&Gvr::of::<K>(), (ns, name, subresource), object)
    }

    /// Replaces an object of a resource that is known only at run time; see [`Transaction::update`].
    pub fn update_value(self, gvr: &Gvr, object: &Value, subresource: &str) -> Self {
        self.update_json(gvr, (text(object, "namespace"), text(object, "name"), subresource), object)
    }

    /// Changes an object, or with a subresource (`status`, `scale`; else empty) that part of it.
    pub fn patch<K: Resource>(self, ns: &str, name: &str, subresource: &str, patch: &Patch) -> Self {
        self.patch_value(&Gvr::of::<K>(), (ns, name, subresource), patch)
    }

    /// Changes what `place` (namespace, name, subresource) names, of a resource that is known only at run time.
    pub fn patch_value(self, gvr: &Gvr, place: (&str, &str, &str), patch: &Patch) -> Self {
        let (kind, document, force) = patch.parts();
        self.push(document, |json| {
            Operation::Patch(pb::PatchRequest {
                r#ref: Some(gvr.reference(place.0, place.1, place.2)),
                r#type: kind.into(),
                patch: json,
                force,
                ..Default::default()
            })
        })
    }

    /// Deletes an object, or begins to.
    pub fn delete<K: Resource>(self, ns: &str, name: &str, params: &DeleteParams) -> Self {
        self.delete_value(&Gvr::of::<K>(), ns, name, params)
    }

    /// Deletes an object of a resource that is known only at run time, or begins to.
    pub fn delete_value(self, gvr: &Gvr, ns: &str, name: &str, params: &DeleteParams) -> Self {
        let reference = Some(gvr.reference(ns, name, ""));
        self.push(&params.options(), |options_json| {
            Operation::Delete(pb::DeleteRequest { r#ref: reference, options_json })
        })
    }

    /// Demands something of an object that holds at the revision of the transaction.
    pub fn check<K: Resource>(self, ns: &str, name: &str, check: Check) -> Self {
        self.check_value(&Gvr::of::<K>(), ns, name, check)
    }

    /// Demands something of an object of a resource that is known only at run time.
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

    /// Carries all of it out. On return it is durable.
    ///
    /// # Errors
    /// The first refusal, and which operation it was.
    pub async fn commit(self) -> Result<Committed, TransactionError> {
        if let Some(error) = self.unfit {
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
    }

    fn create_json(self, gvr: &Gvr, ns: &str, name: &str, object: &impl Serialize) -> Self {
        let reference = Some(gvr.reference(ns, name, ""));
        self.push(object, |json| {
            Operation::Create(pb::CreateRequest { r#ref: reference, json, ..Default::default() })
        })
    }

    fn update_json(self, gvr: &Gvr, place: (&str, &str, &str), object: &impl Serialize) -> Self {
        let reference = Some(gvr.reference(place.0, place.1, place.2));
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
                self.unfit.get_or_insert(TransactionError { operation, error });
            }
        }
        self
    }
}

impl Committed {
    /// The one revision of everything that was written; zero after a dry run.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// What the server warns of.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The object of the operation at `index`, as the whole transaction left it. A deletion of a kind that does not give its
    /// objects back has a `Status`.
    ///
    /// # Errors
    /// [`ApiError::Json`] if it is of another type, or the operation is a check or does not exist.
    pub fn object<K: DeserializeOwned>(&self, index: usize) -> Result<K, TransactionError> {
        let json = self.objects.get(index).map_or(&[][..], |json| json);
        let unfit = |error| TransactionError { operation: Some(index), error: ApiError::json(error) };
        kstore_api::lenient::from_slice(json).map_err(unfit)
    }

    /// The object of the operation at `index` as a JSON value; see [`Committed::object`].
    ///
    /// # Errors
    /// [`ApiError::Json`] if the operation is a check or does not exist.
    pub fn value(&self, index: usize) -> Result<Value, TransactionError> {
        self.object(index)
    }
}

/// Which operation was refused is the field of the last cause: `operations[2]`.
fn of_refusal(error: ApiError) -> TransactionError {
    let cause = error.causes().last().filter(|cause| cause.reason == OPERATION_REFUSED);
    let index = cause.and_then(|cause| cause.field.strip_prefix("operations[")?.strip_suffix(']'));
    TransactionError { operation: index.and_then(|index| index.parse().ok()), error }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
