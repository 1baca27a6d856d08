//! etcd's error texts with their codes. Clients match the text to recover a typed error, so texts are part of the
//! interface. `watch` reports errors in its stream, with texts from here.

use crate::limits::MESSAGE_BYTES;
use kstore_store::{AlarmError, CompactError, LeaseError, RangeError, TxnError};
use tonic::{Code, Status};

/// An error with etcd's code and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct EtcdError {
    pub(crate) code: Code,
    pub(crate) text: &'static str,
}

const fn error(code: Code, text: &'static str) -> EtcdError {
    EtcdError { code, text }
}

pub(crate) const EMPTY_KEY: EtcdError = error(Code::InvalidArgument, "etcdserver: key is not provided");
pub(crate) const KEY_NOT_FOUND: EtcdError = error(Code::InvalidArgument, "etcdserver: key not found");
pub(crate) const VALUE_PROVIDED: EtcdError = error(Code::InvalidArgument, "etcdserver: value is provided");
pub(crate) const LEASE_PROVIDED: EtcdError = error(Code::InvalidArgument, "etcdserver: lease is provided");
pub(crate) const TOO_MANY_OPS: EtcdError =
    error(Code::InvalidArgument, "etcdserver: too many operations in txn request");
const DUPLICATE_KEY: EtcdError =
    error(Code::InvalidArgument, "etcdserver: duplicate key given in txn request");
pub(crate) const INVALID_SORT: EtcdError = error(Code::InvalidArgument, "etcdserver: invalid sort option");
pub(crate) const TOO_LARGE: EtcdError = error(Code::InvalidArgument, "etcdserver: request is too large");
pub(crate) const DOWNGRADE_FORMAT: EtcdError =
    error(Code::InvalidArgument, "etcdserver: wrong downgrade target version format");
pub(crate) const INVALID_DOWNGRADE: EtcdError =
    error(Code::InvalidArgument, "etcdserver: invalid downgrade target version");
pub(crate) const COMPACTED: EtcdError =
    error(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted");
const FUTURE: EtcdError = error(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision");
const TTL_TOO_LARGE: EtcdError = error(Code::OutOfRange, "etcdserver: too large lease TTL");
pub(crate) const TOO_MANY_REQUESTS: EtcdError =
    error(Code::ResourceExhausted, "etcdserver: too many requests");
/// etcd has no bound of this kind.
const READ_TOO_LARGE: EtcdError = error(
    Code::ResourceExhausted,
    "kstore: the read takes too many bytes of old versions: read in key order with a limit",
);
const LEASE_NOT_FOUND: EtcdError = error(Code::NotFound, "etcdserver: requested lease not found");
const LEASE_EXISTS: EtcdError = error(Code::FailedPrecondition, "etcdserver: lease already exists");
pub(crate) const MEMBER_NOT_FOUND: EtcdError = error(Code::NotFound, "etcdserver: member not found");
/// etcd sends this error with the code `Unknown`.
pub(crate) const TOO_FEW_MEMBERS: EtcdError =
    error(Code::Unknown, "etcdserver: re-configuration failed due to not enough started members");
pub(crate) const PEER_URLS_EXIST: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: Peer URLs already exists");
pub(crate) const BAD_MEMBER_URLS: EtcdError =
    error(Code::InvalidArgument, "etcdserver: given member URLs are invalid");
pub(crate) const INVALID_CLIENT_VERSION: EtcdError =
    error(Code::InvalidArgument, "etcdserver: invalid client api version");
pub(crate) const NOT_A_LEARNER: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: can only promote a learner member");
pub(crate) const BAD_TRANSFEREE: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: bad leader transferee");
pub(crate) const UNKNOWN_METHOD: EtcdError = error(Code::Unknown, "etcdserver: unknown method");
pub(crate) const NO_DOWNGRADE: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: no inflight downgrade job");
pub(crate) const STOPPED: EtcdError = error(Code::Unavailable, "etcdserver: server stopped");
const NO_SPACE: EtcdError = error(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
pub(crate) const NOT_REMOVED: EtcdError = error(
    Code::Unknown,
    "kstore: compacted, but nothing can be removed from the disk before a restart: the history engine has failed",
);
pub(crate) const CORRUPT: EtcdError = error(Code::DataLoss, "etcdserver: corrupt cluster");

pub(crate) const ROOT_USER_MISSING: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: root user does not exist");
pub(crate) const AUTH_NOT_ENABLED: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: authentication is not enabled");
pub(crate) const USER_EMPTY: EtcdError = error(Code::InvalidArgument, "etcdserver: user name is empty");
pub(crate) const USER_NOT_FOUND: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: user name not found");
pub(crate) const ROLE_EMPTY: EtcdError = error(Code::InvalidArgument, "etcdserver: role name is empty");
pub(crate) const ROLE_NOT_FOUND: EtcdError =
    error(Code::FailedPrecondition, "etcdserver: role name not found");
pub(crate) const INVALID_PERMISSION: EtcdError =
    error(Code::InvalidArgument, "etcdserver: invalid auth management");
pub(crate) const PERMISSION_NOT_GIVEN: EtcdError =
    error(Code::InvalidArgument, "etcdserver: permission not given");

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Self {
        Self::new(error.code, error.text)
    }
}

impl From<RangeError> for EtcdError {
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::EmptyKey => EMPTY_KEY,
            RangeError::Compacted { .. } => COMPACTED,
            RangeError::Future { .. } => FUTURE,
            RangeError::Damaged { .. } => CORRUPT,
            RangeError::TooLarge => READ_TOO_LARGE,
            RangeError::Stopped(_) => STOPPED,
        }
    }
}

impl From<TxnError> for EtcdError {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::EmptyKey => EMPTY_KEY,
            TxnError::TooManyOps => TOO_MANY_OPS,
            TxnError::TooLarge => TOO_LARGE,
            TxnError::DuplicateKey => DUPLICATE_KEY,
            TxnError::ValueProvided => VALUE_PROVIDED,
            TxnError::LeaseProvided => LEASE_PROVIDED,
            TxnError::KeyNotFound => KEY_NOT_FOUND,
            TxnError::LeaseNotFound(_) => LEASE_NOT_FOUND,
            TxnError::Range(error) => error.into(),
            TxnError::NoSpace => NO_SPACE,
            TxnError::Corrupt => CORRUPT,
            TxnError::Busy => TOO_MANY_REQUESTS,
            TxnError::Stopped(_) => STOPPED,
        }
    }
}

impl From<AlarmError> for EtcdError {
    fn from(error: AlarmError) -> Self {
        match error {
            AlarmError::Busy => TOO_MANY_REQUESTS,
            AlarmError::Stopped(_) => STOPPED,
        }
    }
}

impl From<CompactError> for EtcdError {
    fn from(error: CompactError) -> Self {
        match error {
            CompactError::Compacted { .. } => COMPACTED,
            CompactError::Future { .. } => FUTURE,
            CompactError::Corrupt => CORRUPT,
            CompactError::NotRemoved => NOT_REMOVED,
            CompactError::Busy => TOO_MANY_REQUESTS,
            CompactError::Stopped(_) => STOPPED,
        }
    }
}

impl From<LeaseError> for EtcdError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::NotFound(_) => LEASE_NOT_FOUND,
            LeaseError::Exists(_) => LEASE_EXISTS,
            LeaseError::TtlTooLarge => TTL_TOO_LARGE,
            // etcd has no limit on leases, and therefore no text for it.
            LeaseError::TooMany | LeaseError::Busy => TOO_MANY_REQUESTS,
            LeaseError::NoSpace => NO_SPACE,
            LeaseError::Corrupt => CORRUPT,
            LeaseError::Stopped(_) => STOPPED,
        }
    }
}

/// The error for a call that kstore does not support; `why` says what to do instead.
pub(crate) fn unimplemented(why: &str) -> Status {
    Status::unimplemented(format!("kstore: {why}"))
}

/// Converts tonic's error for an oversized message to grpc-go's. tonic uses the code `OutOfRange`, which etcd's clients
/// would take for a compacted or future revision. None if `status` is another error.
pub(crate) fn oversized(status: &Status) -> Option<Status> {
    let rest = status.message().strip_prefix("Error, decoded message length too large: found ")?;
    let bytes = rest.split(' ').next()?.parse().ok()?;
    (status.code() == Code::OutOfRange).then(|| too_large(bytes))
}

/// The error for a message of `bytes` bytes, in grpc-go's words.
pub(crate) fn too_large(bytes: usize) -> Status {
    Status::resource_exhausted(format!(
        "grpc: received message larger than max ({bytes} vs. {MESSAGE_BYTES})"
    ))
}
