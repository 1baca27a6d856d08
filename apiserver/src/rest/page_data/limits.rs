//! Bounds on the data of the page. Their consequences are lines of the answer, so that the page can say what it does not show.

use std::time::Duration;

/// Most rows of one answer: beyond it the answer ends with a mark.
pub(super) const ROWS: usize = 200_000;

/// Most past revisions of one answer. A larger range is refused with the oldest revision that the caller may ask from. A page keeps as many
/// in memory.
pub(super) const PAST_REVISIONS: i64 = 20_000;

/// Streams of changes that are open at the same time, for all callers. Each reads every commit.
pub(super) const STREAMS: usize = 64;

/// Streams of changes that one user may have open: a page has one, and one user's pages must not shut out those of the others.
pub(super) const STREAMS_OF_USER: usize = 16;

/// How long a stream of changes is open. The page then resumes at its last revision, and its permissions are judged again.
pub(super) const STREAM_TIME: Duration = Duration::from_secs(300);

/// Objects that are read from the storage at a time.
pub(super) const PAGE_OBJECTS: i64 = 500;

/// Bytes at which a chunk of an answer is sent.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// Characters of a message in a row; longer ones are cut, with a mark.
pub(super) const TEXT_CHARACTERS: usize = 240;

/// Labels of an object in its row.
pub(super) const LABELS: usize = 12;

/// Images of an object in its row.
pub(super) const IMAGES: usize = 4;
