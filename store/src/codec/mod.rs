//! Every stored byte is made and read here, one file per kind of record. Pure: no files, no clock.
//!
//! A version of a key has etcd's own form (`kv`). What frames such versions is bincode, pinned to 2.0.1, whose layout has a
//! specification; each record begins with a version byte, so that another encoding can follow.

pub(crate) mod etcd;
pub(crate) mod frame;
pub(crate) mod history;
pub(crate) mod kv;
pub(crate) mod manifest;
pub(crate) mod record;

use bincode::config::{Configuration, standard};
use bincode::{BorrowDecode, Encode};

/// The first version of every record, and the only one of most.
const VERSION: u8 = 1;

/// Little-endian, variable-length integers.
const LAYOUT: Configuration = standard();

/// Why bytes cannot be read. Their checksum was right, so another version or a bug wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// An unknown version.
    #[error("version {0} is not known")]
    Version(u8),
    /// Not the form that the version promises.
    #[error("the form is not right")]
    Malformed,
}

/// Appends version byte and value.
fn put<T: Encode>(out: &mut Vec<u8>, value: &T) {
    put_as(out, VERSION, value);
}

/// The same as a later version.
fn put_as<T: Encode>(out: &mut Vec<u8>, version: u8, value: &T) {
    out.push(version);
    bincode::encode_into_std_write(value, out, LAYOUT).expect("a vector takes everything");
}

/// Reads what [`put`] appended, and what it occupied.
fn take<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Result<(T, usize), DecodeError> {
    match version(bytes)? {
        (VERSION, body) => take_body(body),
        (other, _) => Err(DecodeError::Version(other)),
    }
}

/// The version of what stands there, and what follows it.
fn version(bytes: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    bytes.split_first().map(|(version, body)| (*version, body)).ok_or(DecodeError::Malformed)
}

/// Reads a value behind its version byte; says what both occupied.
fn take_body<'a, T: BorrowDecode<'a, ()>>(body: &'a [u8]) -> Result<(T, usize), DecodeError> {
    let decoded = match body.len() {
        len if len <= SMALL => {
            bincode::borrow_decode_from_slice(body, LAYOUT.with_limit::<{ SMALL * SPREAD }>())
        }
        len if len <= LARGE => {
            bincode::borrow_decode_from_slice(body, LAYOUT.with_limit::<{ LARGE * SPREAD }>())
        }
        _ => bincode::borrow_decode_from_slice(body, LAYOUT),
    };
    decoded.map(|(value, len)| (value, len + 1)).map_err(|_| DecodeError::Malformed)
}

/// Space for as many items as the bytes claim to hold is taken before the first is read. So that a lie does not take all there
/// is, that space is bounded by the bytes' length, in steps since the bound is a constant of the layout.
const SMALL: usize = 64 << 10;

/// The second step: more than a record has.
const LARGE: usize = 16 << 20;

/// No item takes up more bytes in memory for each of its stored ones: a lease that is gone has two and takes up 24.
const SPREAD: usize = 32;
