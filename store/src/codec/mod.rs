//! Encoding and decoding of all stored bytes, one file per kind of record.
//!
//! A version of a key has etcd's own encoding (`types::kv_encoding`). Other records use bincode, pinned to 2.0.1, whose
//! layout has a specification. Each such record starts with a version byte, so that another encoding can replace it.
//!
//! Promise: decoding what was encoded gives the same value, and decoding any bytes ends with a value or an error, within
//! memory that is proportional to them. Never here: files, clocks, and the meaning of a record for the store.

pub(crate) mod etcd;
pub(crate) mod frame;
pub(crate) mod history;
pub(crate) mod manifest;
pub(crate) mod packed;
pub(crate) mod record;

use bincode::config::{Configuration, standard};
use bincode::{BorrowDecode, Encode};

/// The first version of every record, and the only version of most.
const VERSION: u8 = 1;

/// bincode's layout: little-endian, variable-length integers.
const LAYOUT: Configuration = standard();

/// Why a record cannot be decoded. Its checksum was right, so another version or a bug wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The version byte is unknown.
    #[error("version {0} is not known")]
    Version(u8),
    /// The bytes do not have the form of their version.
    #[error("the record is malformed")]
    Malformed,
}

/// Appends the first version byte and the value.
fn put<T: Encode>(out: &mut Vec<u8>, value: &T) {
    put_as(out, VERSION, value);
}

/// Appends `version` and the value.
fn put_as<T: Encode>(out: &mut Vec<u8>, version: u8, value: &T) {
    out.push(version);
    bincode::encode_into_std_write(value, out, LAYOUT).expect("a vector takes everything");
}

/// Decodes what [`put`] appended, and returns its length.
fn take<'a, T: BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Result<(T, usize), DecodeError> {
    match version(bytes)? {
        (VERSION, body) => take_body(body),
        (other, _) => Err(DecodeError::Version(other)),
    }
}

/// The version byte, and the bytes after it.
fn version(bytes: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    bytes.split_first().map(|(version, body)| (*version, body)).ok_or(DecodeError::Malformed)
}

/// Decodes the value after a version byte. Returns the length of both.
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

/// Largest record of the first size class. Decoding reserves space for as many items as the bytes claim to hold, before
/// it reads the first one. The space is bounded by the length of the bytes, so that a wrong count cannot exhaust
/// memory. The bound is a constant of the layout, so there are size classes.
const SMALL: usize = 64 << 10;

/// The second size class: larger than any record.
const LARGE: usize = 16 << 20;

/// The most bytes of memory per stored byte of an item. The worst case is an ended lease: 24 bytes of memory for two
/// stored bytes.
const SPREAD: usize = 32;
