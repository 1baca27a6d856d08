//! One request in the form that the REST and gRPC front ends decode into. Everything behind them sees nothing else.
//! Plain data and pure helpers.

use crate::authn::UserInfo;
use crate::cache::Filter;
use crate::fence::Fence;
use crate::kinds::CustomVersion;
use crate::limits;
use crate::registry::Stage;
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Who asks, about what, to do what, and because of what.
#[derive(Clone, Debug)]
pub struct Request {
    /// The authenticated caller.
    pub user: Arc<UserInfo>,
    /// The `User-Agent`, which names the program or component.
    pub agent: String,
    /// The revisions that made the caller write; at most [`crate::limits::CAUSES`].
    pub causes: Vec<i64>,
    /// The term of leadership outside of which it must not write.
    pub fence: Option<Arc<Fence>>,
    /// The transaction that the request is a part of.
    pub stage: Option<Arc<Stage>>,
    /// How long it may take, if the caller says less than the server allows.
    pub timeout: Option<Duration>,
    /// What it is about.
    pub target: Target,
    /// What to do.
    pub action: Action,
}

impl Request {
    /// How long it may take.
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
}

fn within(asked: Option<Duration>, allowed: Duration) -> Duration {
    asked.map_or(allowed, |asked| asked.min(allowed))
}

/// Several operations of one caller: all of them, at one revision, or none.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The authenticated caller.
    pub user: Arc<UserInfo>,
    /// The `User-Agent`.
    pub agent: String,
    /// The revisions that made the caller write.
    pub causes: Vec<i64>,
    /// The term of leadership outside of which it must not write.
    pub fence: Option<Arc<Fence>>,
    /// Do everything but store.
    pub dry_run: bool,
    /// How long it may take, if the caller says less than the server allows.
    pub timeout: Option<Duration>,
    /// What to do, in order; 1 to [`limits::TRANSACTION_OPERATIONS`].
    pub steps: Vec<Step>,
}

impl Transaction {
    /// How long it may take.
    pub fn time_limit(&self) -> Duration {
        within(self.timeout, limits::WRITE_TIMEOUT)
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates, updates, patches or deletes one object.
    Act(Target, Box<Action>),
    /// Demands something of an object that it does not change.
    Check(Target, Expectation),
}

/// What must hold for an object at the revision of the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// It does not exist.
    Absent,
    /// It exists, with this uid and at this resourceVersion if they are given.
    Present {
        /// Its uid.
        uid: Option<String>,
        /// Its resourceVersion.
        resource_version: Option<i64>,
    },
}

/// A place in the resource tree.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind, in the version the caller speaks.
    pub resource: &'static Resource,
    /// Its definition, if it is a custom kind: as of when the request came.
    pub custom: Option<CustomVersion>,
    /// The subresource, or "".
    pub subresource: &'static str,
    /// The namespace, or "" (cluster scope, or all namespaces).
    pub namespace: String,
    /// The object's name, or "".
    pub name: String,
}

impl Target {
    /// A stored object in the form that the kind's storage version has today.
    ///
    /// # Errors
    /// 500 if it is of a custom kind and would have to be converted by a webhook.
    pub(crate) fn read_stored(&self, stored: Value) -> Result<Value, Status> {
        match &self.custom {
            Some(custom) => custom.storage().read(stored),
            None => Ok(stored),
        }
    }

    /// The storage key of the named object.
    pub fn key(&self) -> String {
        self.resource.storage_key(&self.namespace, &self.name)
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Read one object.
    Get(GetOptions),
    /// Read many.
    List(ListOptions),
    /// Follow changes.
    Watch(WatchOptions),
    /// Make a new object, or post to a subresource.
    Create(Body, WriteOptions),
    /// Replace an object.
    Update(Body, WriteOptions),
    /// Change parts of an object.
    Patch(PatchType, Bytes, WriteOptions),
    /// Delete one object.
    Delete(DeleteOptions, WriteOptions),
    /// Delete what matches.
    DeleteCollection(ListOptions, DeleteOptions, WriteOptions),
}

impl Action {
    /// Whether it may change anything.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::List(_) | Self::Watch(_))
    }

    /// Bytes of the object or patch that came with it, if it is of those that bring one.
    pub fn body_size(&self) -> Option<usize> {
        match self {
            Self::Create(body, _) | Self::Update(body, _) => Some(body.bytes.len()),
            Self::Patch(_, patch, _) => Some(patch.len()),
            Self::Get(_) | Self::List(_) | Self::Watch(_) | Self::Delete(..) | Self::DeleteCollection(..) => {
                None
            }
        }
    }

    /// Whether it is a write that stores nothing.
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

    /// The verb that authorization asks about.
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

/// How to read one object.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// 0: the newest; else the state at exactly this revision.
    pub exact: i64,
    /// Not older than this revision; beyond the newest one it is an error.
    pub not_older_than: i64,
}

/// How to read many objects.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Which.
    pub filter: Filter,
    /// At most so many; 0: all.
    pub limit: i64,
    /// Where the page before ended.
    pub continue_token: String,
    /// At which revision.
    pub at: ListAt,
}

/// At which revision to list: resourceVersion and its match, reduced to what differs on one storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAt {
    /// The newest.
    Newest,
    /// The newest, which must not be older than this.
    NotOlderThan(i64),
    /// Exactly this one.
    Exact(i64),
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// What.
    pub filter: Filter,
    /// From where.
    pub start: crate::cache::WatchStart,
    /// Whether to send bookmarks.
    pub bookmarks: bool,
    /// Whether the end of the initial state is marked (`sendInitialEvents=true`, or where that is the default), and the
    /// revision that the state must have reached before.
    pub mark_initial_end: Option<i64>,
    /// Seconds until the server ends the watch; 0: a default with jitter.
    pub timeout_seconds: u64,
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
}

/// A request body, not yet decoded.
#[derive(Clone, Debug)]
pub struct Body {
    /// Its encoding.
    pub format: Format,
    /// The bytes, within [`crate::limits::BODY_BYTES`].
    pub bytes: Bytes,
}

impl Body {
    /// A JSON body.
    pub fn json(bytes: Bytes) -> Self {
        Self { format: Format::Json, bytes }
    }
}

/// What unknown or duplicate fields in a body lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped and a warning says so.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options that all writes share.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Who owns the written fields.
    pub field_manager: String,
    /// Whether the client named the field manager; else it was derived from its `User-Agent`.
    pub names_manager: bool,
    /// What to do about unknown fields.
    pub field_validation: FieldValidation,
    /// Whether the client said what to do about unknown fields; else it is the default.
    pub names_validation: bool,
    /// Server-side apply only: take ownership on conflict.
    pub force: bool,
    /// What becomes of the books on who owns which field.
    pub books: Books,
}

/// What a write does about field ownership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Books {
    /// What it changes is its author's.
    #[default]
    Tracked,
    /// The object comes with up-to-date managed fields, because it was applied: they are not computed again.
    Kept,
    /// The object goes without: with them it is too large for the store.
    Dropped,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Only if the uid is this.
    pub uid: Option<String>,
    /// Only if the resourceVersion is this.
    pub resource_version: Option<i64>,
    /// Seconds of grace; `None`: the kind's default.
    pub grace_period_seconds: Option<i64>,
    /// What happens to dependents; `None`: by finalizers and kind.
    pub propagation: Option<Propagation>,
    /// The caller said `orphanDependents=false`: an object that is still there afterwards is answered with 202.
    pub accepts: bool,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their owner reference and stay.
    Orphan,
    /// They are deleted after it.
    Background,
    /// It goes when they are gone.
    Foreground,
}
