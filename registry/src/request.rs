//! [`Request`]: the form into which the REST and gRPC front ends decode requests. All later stages work with
//! it alone. Plain data and pure helpers.

use crate::cache::{Filter, ReadBound};
use crate::fence::{Fence, leases};
use crate::kinds::CustomVersion;
use crate::stage::Stage;
use crate::user::{MASTERS, SELF, UserInfo};
use bytes::Bytes;
use kstore_api::defaults;
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::limits;
use kstore_storage::storage::CommitGroup;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A decoded request: caller, target, action and causes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The authenticated caller.
    pub user: Arc<UserInfo>,
    /// The `User-Agent`, which names the program or component.
    pub agent: String,
    /// The revisions that led the caller to write; at most [`kstore_storage::limits::CAUSES`].
    pub causes: Vec<i64>,
    /// The term of leadership that must hold at the revision of the write.
    pub fence: Option<Arc<Fence>>,
    /// The transaction that the request belongs to.
    pub stage: Option<Arc<Stage>>,
    /// The group of requests with which the commits of the request are executed; `None`: alone.
    pub group: Option<Arc<CommitGroup>>,
    /// The timeout that the caller states; the server's own timeout bounds it.
    pub timeout: Option<Duration>,
    /// How far a read sees; `None` outside the lab and the views of the past.
    pub bound: Option<Arc<dyn ReadBound>>,
    /// The object, collection or subresource that the request is about.
    pub target: Target,
    /// The operation with its options and body.
    pub action: Action,
}

impl Request {
    /// The timeout of the request.
    pub fn time_limit(&self) -> Duration {
        let allowed = match self.action {
            Action::Create(..) | Action::Update(..) | Action::Patch(..) | Action::Delete(..) => {
                limits::WRITE_TIMEOUT
            }
            Action::Get(_) | Action::List(_) | Action::Watch(_) | Action::DeleteCollection(..) => {
                limits::REQUEST_TIMEOUT
            }
        };
        within(self.timeout, allowed)
    }

    /// The request with managed fields dropped, if it works without them. An apply does not: it is about field
    /// ownership. A scale does not: its managed fields belong to the workload.
    pub fn without_managed_fields(&self) -> Option<Self> {
        let dropped = |options: &WriteOptions| WriteOptions {
            managed_fields: ManagedFieldsUpdate::Dropped,
            ..options.clone()
        };
        let action = match (&self.action, self.target.subresource) {
            (Action::Create(body, options), "") => Action::Create(body.clone(), dropped(options)),
            (Action::Update(body, options), below) if below != "scale" => {
                Action::Update(body.clone(), dropped(options))
            }
            (Action::Patch(kind, patch, options), below) if *kind != PatchType::Apply && below != "scale" => {
                Action::Patch(*kind, patch.clone(), dropped(options))
            }
            _ => return None,
        };
        Some(Self { action, ..self.clone() })
    }
}

/// A request of the apiserver on its own behalf. Webhooks are not called for it.
pub fn own_request(target: Target, action: Action) -> Request {
    Request {
        user: UserInfo::new(SELF, [MASTERS]).into(),
        agent: "kstore-apiserver".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        group: None,
        timeout: None,
        bound: None,
        target,
        action,
    }
}

fn within(requested: Option<Duration>, allowed: Duration) -> Duration {
    requested.map_or(allowed, |requested| requested.min(allowed))
}

/// Several operations of one caller that are committed at one revision, or not at all.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The authenticated caller.
    pub user: Arc<UserInfo>,
    /// The `User-Agent`.
    pub agent: String,
    /// The revisions that led the caller to write.
    pub causes: Vec<i64>,
    /// The term of leadership that must hold at the revision of the write.
    pub fence: Option<Arc<Fence>>,
    /// Whether to execute everything except the commit.
    pub dry_run: bool,
    /// The timeout that the caller states; the server's own timeout bounds it.
    pub timeout: Option<Duration>,
    /// The operations in order; 1 to [`limits::TRANSACTION_OPERATIONS`].
    pub steps: Vec<TransactionStep>,
}

impl Transaction {
    /// The timeout of the transaction.
    pub fn time_limit(&self) -> Duration {
        within(self.timeout, limits::WRITE_TIMEOUT)
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub enum TransactionStep {
    /// Creates, updates, patches or deletes one object.
    Act(Target, Box<Action>),
    /// Requires something of an object without changing it.
    Check(Target, Expectation),
}

/// A condition on an object at the revision of the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The object does not exist.
    Absent,
    /// The object exists; with this uid and at this resourceVersion if they are given.
    Present {
        /// The required uid.
        uid: Option<String>,
        /// The required resourceVersion.
        resource_version: Option<i64>,
    },
}

/// A location in the resource tree: an object, a collection or a subresource.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// The definition of a custom kind, as it was when the request arrived.
    pub custom: Option<CustomVersion>,
    /// The subresource, or "".
    pub subresource: &'static str,
    /// The namespace, or "" (cluster scope, or all namespaces).
    pub namespace: String,
    /// The name of the object, or "".
    pub name: String,
}

impl Target {
    /// The Lease that a fence names.
    pub fn lease_of(fence: &Fence) -> Self {
        let (namespace, name) = (fence.namespace().to_owned(), fence.name().to_owned());
        Self { resource: leases(), custom: None, subresource: "", namespace, name }
    }

    /// Decodes a stored object in the current form of its kind's storage version.
    ///
    /// # Errors
    /// 500 if it is a custom object that only a webhook could convert.
    pub fn read_stored(&self, stored: Value) -> Result<Value, Status> {
        match &self.custom {
            Some(custom) => custom.storage().read(stored),
            None => Ok(stored),
        }
    }

    /// Fills in the kind's defaults.
    pub fn fill_defaults(&self, object: &mut Value) {
        match &self.custom {
            Some(custom) => custom.version().tree.fill_defaults(object),
            None => defaults::apply(self.resource, object),
        }
    }

    /// The custom version whose schema the request's body has. `None` for built-in kinds and for scales,
    /// whose kind is built in.
    pub fn schema(&self) -> Option<&CustomVersion> {
        self.custom.as_ref().filter(|_| matches!(self.subresource, "" | "status"))
    }

    /// The storage key of the named object.
    pub fn key(&self) -> String {
        self.resource.storage_key(&self.namespace, &self.name)
    }
}

/// The operation of a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// Reads one object.
    Get(GetOptions),
    /// Lists objects.
    List(ListOptions),
    /// Watches objects.
    Watch(WatchOptions),
    /// Creates an object, or posts to a subresource.
    Create(Body, WriteOptions),
    /// Replaces an object.
    Update(Body, WriteOptions),
    /// Patches an object.
    Patch(PatchType, Bytes, WriteOptions),
    /// Deletes one object.
    Delete(DeleteOptions, WriteOptions),
    /// Deletes all objects that match.
    DeleteCollection(ListOptions, DeleteOptions, WriteOptions),
}

impl Action {
    /// Whether the action may change objects.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::List(_) | Self::Watch(_))
    }

    /// Bytes of the object or patch in the request, for actions that have one.
    pub fn body_size(&self) -> Option<usize> {
        self.body_bytes().map(Bytes::len)
    }

    /// The object or patch in the request, as it was sent, for actions that have one.
    pub(crate) fn body_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Create(body, _) | Self::Update(body, _) => Some(&body.bytes),
            Self::Patch(_, patch, _) => Some(patch),
            Self::Get(_) | Self::List(_) | Self::Watch(_) | Self::Delete(..) | Self::DeleteCollection(..) => {
                None
            }
        }
    }

    /// Whether the action is a write that stores nothing.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Get(_) | Self::List(_) | Self::Watch(_) => false,
            Self::Create(_, options)
            | Self::Update(_, options)
            | Self::Patch(_, _, options)
            | Self::Delete(_, options)
            | Self::DeleteCollection(_, _, options) => options.dry_run,
        }
    }

    /// The verb for authorization.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::List(_) => "list",
            Self::Watch(_) => "watch",
            Self::Create(..) => "create",
            Self::Update(..) => "update",
            Self::Patch(..) => "patch",
            Self::Delete(..) => "delete",
            Self::DeleteCollection(..) => "deletecollection",
        }
    }
}

/// Options of reading one object.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// The revision to read at; 0: the newest.
    pub exact: i64,
    /// The oldest acceptable revision. A revision beyond the newest is an error.
    pub not_older_than: i64,
}

/// Options of listing objects.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// The selection of objects.
    pub filter: Filter,
    /// The largest number of objects in the answer; 0: no limit.
    pub limit: i64,
    /// The token of the previous page; empty for the first page.
    pub continue_token: String,
    /// The revision to list at.
    pub at: ListAt,
}

/// The revision of a list: the effect of resourceVersion and resourceVersionMatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAt {
    /// The newest revision.
    Newest,
    /// The newest revision, which must not be older than this one.
    NotOlderThan(i64),
    /// Exactly this revision.
    Exact(i64),
}

/// Options of a watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The selection of objects.
    pub filter: Filter,
    /// The state or revision at which the watch starts.
    pub start: crate::cache::WatchStart,
    /// Whether to send bookmarks.
    pub bookmarks: bool,
    /// If present, a bookmark marks the end of the initial state (`sendInitialEvents=true`, or where that is
    /// the default). The state must have reached this revision.
    pub mark_initial_end: Option<i64>,
    /// Seconds until the server ends the watch; 0: a default with jitter.
    pub timeout_seconds: u64,
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml` and its older names.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
}

/// A request body, not yet decoded.
#[derive(Clone, Debug)]
pub struct Body {
    /// The encoding of the bytes.
    pub format: Format,
    /// The encoded bytes; at most [`kstore_storage::limits::BODY_BYTES`].
    pub bytes: Bytes,
}

impl Body {
    /// A JSON body.
    pub fn json(bytes: Bytes) -> Self {
        Self { format: Format::Json, bytes }
    }
}

/// The treatment of unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are dropped.
    Ignore,
    /// Unknown and duplicate fields are dropped, and the response has a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options that all writes share.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Whether to execute everything except the commit.
    pub dry_run: bool,
    /// The manager of the written fields in managed fields.
    pub field_manager: String,
    /// Whether the client stated the field manager; otherwise it is derived from its `User-Agent`.
    pub names_manager: bool,
    /// The treatment of unknown fields.
    pub field_validation: FieldValidation,
    /// Whether the client stated the treatment of unknown fields; otherwise it is the default.
    pub names_validation: bool,
    /// Server-side apply only: whether to take over fields from other managers.
    pub force: bool,
    /// How the write updates managed fields.
    pub managed_fields: ManagedFieldsUpdate,
    /// Creates only: whether to answer at once, even if the object waits for initializers.
    pub includes_uninitialized: bool,
}

/// How a write updates the managed fields of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFieldsUpdate {
    /// Changed fields are recorded under the request's field manager.
    #[default]
    Tracked,
    /// The object already has up-to-date managed fields, because it was applied; they are not computed again.
    Kept,
    /// Managed fields are removed: with them the object is too large for the store.
    Dropped,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Precondition: the uid of the object.
    pub uid: Option<String>,
    /// Precondition: the resourceVersion of the object.
    pub resource_version: Option<i64>,
    /// The grace period in seconds; `None`: the kind's default.
    pub grace_period_seconds: Option<i64>,
    /// The treatment of dependents; `None`: as finalizers and kind say.
    pub propagation: Option<Propagation>,
    /// Deletion of an object that cannot be read, if the caller asks for it.
    pub unsafe_deletion: Option<UnsafeDeletion>,
    /// Whether the caller stated `orphanDependents=false`: the answer is then 202 if the object still exists
    /// after the request.
    pub accepts: bool,
}

/// The option `ignoreStoreReadErrorWithClusterBreakingPotential`: an object that cannot be decrypted or decoded is removed without a look
/// at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsafeDeletion {
    /// Options beside it that contradict it.
    pub contradictions: Vec<&'static str>,
}

/// The treatment of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents lose their owner reference and stay.
    Orphan,
    /// Dependents are deleted after the object.
    Background,
    /// The object is deleted after its dependents.
    Foreground,
}

/// Parses the revisions of a `kstore-cause` header; anything but numbers is ignored.
pub fn causes(header: &str) -> Vec<i64> {
    header.split(',').filter_map(|revision| revision.trim().parse().ok()).take(limits::CAUSES).collect()
}
