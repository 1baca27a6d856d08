//! The shortest sequence of removed and added lines between two texts, after Myers.

use crate::shell::memory::{Bounds, Reservation};
use std::borrow::Cow;

/// Removed and added lines beyond which texts count as wholly different: the memory grows with the square of their number.
const MOST_CHANGES: usize = 1_000;

/// The lines of a text, and what of them is compared.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    /// The lines with their newlines.
    pub(super) all: Vec<&'a [u8]>,
    compared: Vec<Cow<'a, [u8]>>,
    _room: Reservation,
}

impl<'a> Lines<'a> {
    /// The lines of a text, compared as the flags `i`, `b` and `w` of `diff` say. `None` if the command is killed.
    pub(super) fn of(text: &'a [u8], bounds: &Bounds, has: &dyn Fn(char) -> bool) -> Option<Self> {
        let count = text.split_inclusive(|byte| *byte == b'\n').count();
        let mut room = Reservation::new(&bounds.allowance);
        let changes = has('i') || has('b') || has('w');
        let bytes = count * size_of::<(&[u8], Cow<'_, [u8]>)>() + if changes { text.len() } else { 0 };
        if !bounds.grow(&mut room, bytes) || !bounds.work.spend(64 * count + 4 * text.len()) {
            return None;
        }
        let all: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let compared = |line: &&'a [u8]| -> Cow<'a, [u8]> {
            if !changes {
                return Cow::Borrowed(line);
            }
            let lower = |byte: u8| if has('i') { byte.to_ascii_lowercase() } else { byte };
            let mut kept: Vec<u8> = Vec::new();
            for byte in line.iter().copied().map(lower) {
                match byte.is_ascii_whitespace() {
                    true if has('w') => {}
                    true if has('b') && kept.last() == Some(&b' ') => {}
                    true if has('b') => kept.push(b' '),
                    _ => kept.push(byte),
                }
            }
            if has('b') && kept.last() == Some(&b' ') {
                kept.pop();
            }
            Cow::Owned(kept)
        };
        let compared = all.iter().map(compared).collect();
        Some(Self { all, compared, _room: room })
    }
}

/// Lines of one text that lines of the other replace; ranges from the first line to the one behind the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) left: (usize, usize),
    pub(super) right: (usize, usize),
}

/// The changes from one text to the other, in order.
pub(super) fn changes(left: &Lines<'_>, right: &Lines<'_>, bounds: &Bounds) -> Vec<Change> {
    let (one, other) = (&left.compared[..], &right.compared[..]);
    let head = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = one[head..].iter().rev().zip(other[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[head..one.len() - tail], &other[head..other.len() - tail]);
    if one.is_empty() && other.is_empty() {
        return Vec::new();
    }
    let matched = matches(one, other, bounds).unwrap_or_default();
    let mut all: Vec<Change> = Vec::new();
    let (mut a, mut b) = (0, 0);
    for (next_a, next_b) in matched.into_iter().chain([(one.len(), other.len())]) {
        if a < next_a || b < next_b {
            all.push(Change { left: (head + a, head + next_a), right: (head + b, head + next_b) });
        }
        (a, b) = (next_a + 1, next_b + 1);
    }
    all
}

/// The equal lines of a shortest edit, as pairs of their numbers. `None` if there are too many changes.
fn matches(one: &[Cow<'_, [u8]>], other: &[Cow<'_, [u8]>], bounds: &Bounds) -> Option<Vec<(usize, usize)>> {
    let most = (one.len() + other.len()).min(MOST_CHANGES);
    let mut room = Reservation::new(&bounds.allowance);
    // The furthest line of `one` on each diagonal, from -d to d, after d changes.
    let mut furthest: Vec<Vec<usize>> = Vec::new();
    for d in 0..=most {
        let width = 2 * d + 1;
        if !room.grow(width * size_of::<usize>()) || !bounds.work.spend(32 * width) {
            return None;
        }
        let mut row: Vec<usize> = std::iter::repeat_n(0, width).collect();
        for at in (0..width).step_by(2) {
            let entered = start(furthest.last(), d, at).0;
            let mut a = entered;
            // The diagonal is at - d, and b = a - diagonal.
            let mut b = (a + d).checked_sub(at)?;
            while a < one.len() && b < other.len() && one[a] == other[b] {
                (a, b) = (a + 1, b + 1);
            }
            bounds.work.spend(16 * (a - entered));
            row[at] = a;
            if a >= one.len() && b >= other.len() {
                furthest.push(row);
                return Some(backtrack(&furthest, one.len(), other.len()));
            }
        }
        furthest.push(row);
    }
    None
}

/// Where a path of `d` changes enters the diagonal `at - d`: the line of the first text, and whether a line of it was removed.
fn start(before: Option<&Vec<usize>>, d: usize, at: usize) -> (usize, bool) {
    let Some(before) = before else { return (0, false) };
    // The row before has its diagonals one place to the left.
    let added = before.get(at).copied().filter(|_| at < 2 * d - 1);
    let removed = at.checked_sub(2).map(|at| before[at] + 1);
    match (added, removed) {
        (Some(added), Some(removed)) if removed > added => (removed, true),
        (Some(added), _) => (added, false),
        (None, Some(removed)) => (removed, true),
        (None, None) => (0, false),
    }
}

/// The pairs of equal lines on the path that reached the ends of both texts.
fn backtrack(furthest: &[Vec<usize>], one: usize, other: usize) -> Vec<(usize, usize)> {
    let (mut a, mut b) = (one, other);
    let mut pairs = Vec::new();
    for d in (0..furthest.len()).rev() {
        let at = a + d - b;
        let (entered, is_removed) = start(d.checked_sub(1).map(|before| &furthest[before]), d, at);
        while a > entered {
            (a, b) = (a - 1, b - 1);
            pairs.push((a, b));
        }
        if d > 0 {
            if is_removed { a -= 1 } else { b -= 1 }
        }
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(left: &[u8], right: &[u8]) -> Vec<Change> {
        let bounds = Bounds::default();
        let none = |_: char| false;
        let (left, right) =
            (Lines::of(left, &bounds, &none).unwrap(), Lines::of(right, &bounds, &none).unwrap());
        changes(&left, &right, &bounds)
    }

    #[test]
    fn texts_with_too_many_changes_are_wholly_replaced() {
        let text = |from: u32| (from..from + 600).map(|n| format!("{n}\n")).collect::<String>();
        let all = found(text(0).as_bytes(), text(1000).as_bytes());
        assert_eq!(all, [Change { left: (0, 600), right: (0, 600) }]);
    }

    proptest! {
        #[test]
        fn changes_make_one_text_of_the_other(one in "[ab\n]{0,24}", other in "[ab\n]{0,24}") {
            let all = found(one.as_bytes(), other.as_bytes());
            let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
            let (left, right) = (lines(&one), lines(&other));
            let (mut made, mut at) = (Vec::new(), 0);
            for change in &all {
                made.extend_from_slice(&left[at..change.left.0]);
                made.extend_from_slice(&right[change.right.0..change.right.1]);
                at = change.left.1;
            }
            made.extend_from_slice(&left[at..]);
            prop_assert_eq!(made, right);
        }
    }
}
