//! Evaluation of ranges at a revision: selects the versions, then filters, sorts and limits them. Pure; the caller
//! reads old versions from the engine in between.

use crate::mvcc::index::{Index, VersionRef};
use crate::mvcc::staged::StagedView;
use crate::types::range::{Range, RangeResult, SortOrder, SortTarget};
use crate::types::record::RecordKey;
use crate::{KeyValue, RangeError, Revision};
use std::cmp::Ordering;
use std::sync::Arc;

/// A selected version: in memory, or to be read from the engine.
#[derive(Debug)]
pub(crate) enum SelectedVersion {
    /// The version is in memory.
    Ready(Arc<KeyValue>),
    /// The version must be read from the engine.
    Stored(RecordKey),
}

impl From<VersionRef<'_>> for SelectedVersion {
    fn from(found: VersionRef<'_>) -> Self {
        match found {
            VersionRef::Newest(kv) => Self::Ready(kv.clone()),
            VersionRef::Stored(key) => Self::Stored(key),
        }
    }
}

/// The versions of a range before filters, sorting and limit.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) picks: Vec<SelectedVersion>,
    count: usize,
    /// Whether [`Range::max_bytes`] left versions out.
    is_cut: bool,
}

/// Memory that the copy of a version takes in addition to its bytes.
const COPY_BYTES: usize = 64;

impl Selection {
    fn of(picks: Vec<SelectedVersion>, count: usize) -> Self {
        Self { picks, count, is_cut: false }
    }
}

/// Resolves the revision to read at, and checks that it is readable.
pub(crate) fn resolve(
    request: &Range,
    current: Revision,
    compacted: Revision,
) -> Result<Revision, RangeError> {
    let requested = request.revision;
    if requested.0 <= 0 {
        Ok(current)
    } else if requested > current {
        Err(RangeError::Future { requested, current })
    } else if requested < compacted {
        Err(RangeError::Compacted { requested, compacted })
    } else {
        Ok(requested)
    }
}

/// Selects the versions from published state.
pub(crate) fn select(index: &Index, request: &Range, revision: Revision) -> Selection {
    let keys = &request.keys;
    if request.count_only {
        return Selection::of(Vec::new(), index.count(keys, revision));
    }
    let found = index.range(keys).filter_map(|entry| entry.at(revision)).map(SelectedVersion::from);
    match stop_after(request) {
        Some(most) => {
            let picks: Vec<_> = found.take(most).collect();
            let count = if picks.len() < most { picks.len() } else { index.count(keys, revision) };
            Selection::of(picks, count)
        }
        None => {
            let picks: Vec<_> = found.collect();
            let count = picks.len();
            Selection::of(picks, count)
        }
    }
}

/// Selects the versions from staged state, as the writer sees it.
pub(crate) fn select_staged(staged: StagedView<'_>, request: &Range, revision: Revision) -> Selection {
    if request.count_only {
        return Selection::of(Vec::new(), staged.count(&request.keys, revision));
    }
    let (mut picks, mut count) = (Vec::new(), 0);
    let most = stop_after(request).unwrap_or(usize::MAX);
    staged.visit(&request.keys, revision, |found| {
        count += 1;
        if count <= most {
            picks.push(found.into());
        }
    });
    Selection::of(picks, count)
}

/// Reads the selected versions; `fetch` copies those that are not in memory. Stops at [`Range::max_bytes`].
///
/// `left` is what may still be copied.
///
/// # Errors
/// The first error of `fetch`, or [`RangeError::TooLarge`] when nothing is left.
pub(crate) fn read(
    request: &Range,
    selection: &mut Selection,
    left: &mut usize,
    fetch: impl Fn(RecordKey) -> Result<Arc<KeyValue>, RangeError>,
) -> Result<Vec<Arc<KeyValue>>, RangeError> {
    let picks = std::mem::take(&mut selection.picks);
    let (mut kvs, mut bytes) = (Vec::with_capacity(picks.len()), 0);
    let omits_values = request.keys_only && request.sort_target != SortTarget::Value;
    for pick in picks {
        let kv = match pick {
            SelectedVersion::Ready(kv) => kv,
            SelectedVersion::Stored(key) => {
                let kv = fetch(key)?;
                let kv = if omits_values { Arc::new(kv.copied_without_value()) } else { kv };
                *left = left.checked_sub(kv.encoded().len() + COPY_BYTES).ok_or(RangeError::TooLarge)?;
                kv
            }
        };
        if let Some(most) = request.stops_at_bytes() {
            bytes += if omits_values { kv.key().len() } else { kv.encoded().len() };
            if bytes > most && !kvs.is_empty() {
                selection.is_cut = true;
                break;
            }
        }
        kvs.push(kv);
    }
    Ok(kvs)
}

/// How many versions suffice: one more than the limit, if the result is in key order without filters.
fn stop_after(request: &Range) -> Option<usize> {
    let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0)?;
    request.is_natural().then_some(limit.saturating_add(1))
}

/// Filters, sorts and limits the selected versions.
pub(crate) fn finish(
    request: &Range,
    revision: Revision,
    count: &Selection,
    mut kvs: Vec<Arc<KeyValue>>,
) -> RangeResult {
    if request.has_filters() {
        kvs.retain(|kv| passes(request, kv));
    }
    if request.sort_target != SortTarget::Key {
        kvs.sort_by(|a, b| compare(request.sort_target, request.sort_order, a, b));
    } else if request.sort_order == SortOrder::Descending {
        kvs.reverse();
    }
    let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let more = count.is_cut || kvs.len() > limit;
    kvs.truncate(limit);
    if request.keys_only {
        kvs.iter_mut().for_each(|kv| *kv = Arc::new(kv.without_value()));
    }
    let count = i64::try_from(count.count).expect("keys fit into memory");
    RangeResult { revision, kvs, more, count }
}

fn passes(request: &Range, kv: &KeyValue) -> bool {
    let within = |value: Revision, min: Revision, max: Revision| {
        (min.0 == 0 || value >= min) && (max.0 == 0 || value <= max)
    };
    within(kv.mod_revision(), request.min_mod_revision, request.max_mod_revision)
        && within(kv.create_revision(), request.min_create_revision, request.max_create_revision)
}

/// Compares by the sort field. The sort is stable, so equal fields keep key order in both directions.
fn compare(target: SortTarget, order: SortOrder, a: &KeyValue, b: &KeyValue) -> Ordering {
    let ascending = match target {
        SortTarget::Key => a.key().cmp(b.key()),
        SortTarget::Version => a.version().cmp(&b.version()),
        SortTarget::Create => a.create_revision().cmp(&b.create_revision()),
        SortTarget::Mod => a.mod_revision().cmp(&b.mod_revision()),
        SortTarget::Value => a.value().cmp(b.value()),
    };
    match order {
        SortOrder::Ascending => ascending,
        SortOrder::Descending => ascending.reverse(),
    }
}
