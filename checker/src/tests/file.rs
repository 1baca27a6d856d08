//! Tests that a stored history reads back.

use super::generate::{Setup, history};
use crate::History;
use crate::history::{Blob, FileError, Operation, Range};

#[test]
fn a_stored_history_reads_back() {
    let mut history = history(Setup::small(3));
    let odd = Range { keys: crate::history::Keys::one([0xff, 0, b'"']), ..Range::default() };
    history.calls[0].operation = Operation::Range(odd);
    history.start.kvs.push(crate::history::KeyValue { value: Blob::from([0xfe]), ..Default::default() });
    let mut file = Vec::new();
    history.write(&mut file).unwrap();
    assert_eq!(History::read(&file[..]).unwrap(), history);
}

#[test]
fn a_malformed_line_is_reported_by_number() {
    let error = History::read(&b"\n{\"call\": 7}\n"[..]).unwrap_err();
    assert!(matches!(error, FileError::Line { number: 2, .. }), "{error}");
}
