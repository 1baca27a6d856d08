//! Parses lists of completion indexes as job statuses state them: `1,3-5,7`.
//!
//! Follows `validateIndexesFormat`.

/// Parses the list into `(first, last)` intervals; the error is the text that clients see.
pub(super) fn parse(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut intervals: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = interval(part, completions)?;
        match intervals.last() {
            Some((_, before)) if *before >= first => return Err(falling(*before, first)),
            _ => intervals.push((first, last)),
        }
    }
    Ok(intervals)
}

/// Number of indexes in the intervals.
pub(super) fn count(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().map(|(first, last)| last - first + 1).sum()
}

/// The lowest index that both lists contain.
pub(super) fn common(one: &[(i64, i64)], other: &[(i64, i64)]) -> Option<i64> {
    let (mut i, mut j) = (0, 0);
    while let (Some((a, b)), Some((c, d))) = (one.get(i), other.get(j)) {
        if a <= d && c <= b {
            return Some(*a.max(c));
        }
        if a <= c { i += 1 } else { j += 1 }
    }
    None
}

fn falling(before: i64, now: i64) -> String {
    format!("non-increasing order, previous: {before}, current: {now}")
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let ends: Vec<&str> = part.split('-').take(3).collect();
    match ends.as_slice() {
        [only] => index(only, completions).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (index(first, completions)?, index(last, completions)?);
            if first >= last { Err(falling(first, last)) } else { Ok((first, last)) }
        }
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let index = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if index >= completions { Err(format!("too large index: {text:?}")) } else { Ok(index) }
}
