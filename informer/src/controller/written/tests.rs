//! Tests of the newest own writes and their bound.

use super::*;

fn key(n: usize) -> Key {
    Key::new("default", &format!("set-{n}"))
}

#[test]
fn each_key_has_its_own_newest_write() {
    let written = WrittenRevisions::default();
    written.note(&key(1), Revision(7));
    written.note(&key(1), Revision(5));
    written.note(&key(2), Revision(9));
    assert_eq!([1, 2, 3].map(|n| written.of(&key(n))), [Revision(7), Revision(9), Revision(0)]);
}

#[test]
fn forgotten_writes_are_covered_by_a_later_revision() {
    let written = WrittenRevisions::default();
    for n in 0..3 * WRITTEN_KEYS {
        written.note(&key(n), Revision(n as u64 + 1));
        assert!(written.len() <= 2 * WRITTEN_KEYS);
    }
    for n in 0..3 * WRITTEN_KEYS {
        assert!(written.of(&key(n)) > Revision(n as u64), "{n}");
    }
    let (first, last) = (written.of(&key(0)), written.of(&key(3 * WRITTEN_KEYS - 1)));
    assert_eq!((first, last), (Revision(WRITTEN_KEYS as u64), Revision(3 * WRITTEN_KEYS as u64)));
}
