//! What differs between two values, line by line, for people: the unified form of their indented JSON, as Kubernetes appends it to
//! refusals of changes. Members have the names of the manifest. Not a patch: it is cut where it gets long.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::limits::{DIFF_CELLS_MAX, DIFF_MAX};

/// Lines shown around each difference.
const CONTEXT: usize = 3;

/// A stretch of lines that are alike or not, as ranges of both texts.
struct Hunk {
    old: (usize, usize),
    new: (usize, usize),
}

/// The lines that went (`-`) and came (`+`), with those around them; empty if the values are written alike.
pub(crate) fn unified(old: &Value, new: &Value) -> String {
    let (old, new) = (indented(old), indented(new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for hunks in groups(&differences(&old, &new)) {
        group(&mut out, hunks, &old, &new);
    }
    cut(out)
}

fn indented(value: &Value) -> String {
    let mut out = Vec::new();
    let mut writer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b" "));
    value.serialize(&mut writer).expect("a value is written to memory");
    String::from_utf8(out).expect("JSON is text")
}

/// Where the texts differ, in order.
fn differences(old: &[&str], new: &[&str]) -> Vec<Hunk> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    if old.len() * new.len() > DIFF_CELLS_MAX {
        return vec![Hunk { old: (start, start + old.len()), new: (start, start + new.len()) }];
    }
    walk(&common(old, new), old, new, start)
}

/// How many lines the rests of both texts have in common, from each pair of places: a row per line of the old one, and one more.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let least = table[i + 1][j].max(table[i][j + 1]);
            table[i][j] = if old[i] == new[j] { table[i + 1][j + 1] + 1 } else { least };
        }
    }
    table
}

fn walk(table: &[Vec<usize>], old: &[&str], new: &[&str], start: usize) -> Vec<Hunk> {
    let (mut i, mut j, mut hunks) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let (from_old, from_new) = (i, j);
        while i < old.len() || j < new.len() {
            if i < old.len() && j < new.len() && old[i] == new[j] {
                break;
            }
            // What went is shown before what came.
            if i < old.len() && (j == new.len() || table[i + 1][j] >= table[i][j + 1]) {
                i += 1;
            } else {
                j += 1;
            }
        }
        if (from_old, from_new) != (i, j) {
            hunks.push(Hunk { old: (start + from_old, start + i), new: (start + from_new, start + j) });
        }
        while i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        }
    }
    hunks
}

/// Differences so near each other that their surroundings touch.
fn groups(hunks: &[Hunk]) -> impl Iterator<Item = &[Hunk]> {
    hunks.chunk_by(|a, b| b.old.0 - a.old.1 <= 2 * CONTEXT)
}

fn group(out: &mut String, hunks: &[Hunk], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (hunks.first(), hunks.last()) else { return };
    let before = CONTEXT.min(first.old.0);
    let end = old.len().min(last.old.1 + CONTEXT);
    let (from, after) = (first.old.0 - before, end - last.old.1);
    let range = (first.new.0 - before, last.new.1 + after);
    out.push_str(&format!("@@ -{} +{} @@\n", span((from, end)), span(range)));
    let mut at = from;
    for hunk in hunks {
        lines(out, ' ', &old[at..hunk.old.0]);
        lines(out, '-', &old[hunk.old.0..hunk.old.1]);
        lines(out, '+', &new[hunk.new.0..hunk.new.1]);
        at = hunk.old.1;
    }
    lines(out, ' ', &old[at..end]);
}

/// `first,count` of lines counted from one; an empty span is after the line before it.
fn span((from, to): (usize, usize)) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        count => format!("{},{count}", from + 1),
    }
}

fn lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

fn cut(mut text: String) -> String {
    if text.len() > DIFF_MAX {
        text.truncate(text.floor_char_boundary(DIFF_MAX));
        text.push_str("…\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_went_and_came_is_shown_with_its_surroundings() {
        let old = json!({"a": 1, "b": [1, 2, 3], "c": "x", "d": {}, "e": 0, "f": 0, "g": 0, "h": 0, "i": 0, "j": 0, "k": 0});
        let mut new = old.clone();
        new["c"] = json!("y");
        new["z"] = json!(true);
        let want = "@@ -5,7 +5,7 @@\n   2,\n   3\n  ],\n- \"c\": \"x\",\n+ \"c\": \"y\",\n  \"d\": {},\n  \"e\": 0,\n  \"f\": 0,\n\
                    @@ -13,5 +13,6 @@\n  \"h\": 0,\n  \"i\": 0,\n  \"j\": 0,\n- \"k\": 0\n+ \"k\": 0,\n+ \"z\": true\n }\n";
        assert_eq!(unified(&old, &new), want);
        assert_eq!(unified(&old, &old), "");
        assert_eq!(unified(&json!(1), &json!(2)), "@@ -1 +1 @@\n-1\n+2\n");
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = |n: usize| json!((0..n).collect::<Vec<_>>());
        let (few, many) = (long(10), long(20_000));
        let text = unified(&few, &many);
        assert!(text.len() < DIFF_MAX + 10 && text.ends_with("…\n"), "{}", text.len());
    }

    proptest! {
        #[test]
        fn applying_it_gives_the_new_text(old in prop::collection::vec(0..4_u8, 0..12), new in prop::collection::vec(0..4_u8, 0..12)) {
            let (old, new) = (json!(old), json!(new));
            let (before, after) = (indented(&old), indented(&new));
            let mut rest = before.lines();
            let mut made = Vec::new();
            let mut seen = 0;
            let shown = unified(&old, &new);
            for line in shown.lines() {
                if let Some(header) = line.strip_prefix("@@ -") {
                    let first: usize = header.split([',', ' ']).next().unwrap().parse().unwrap();
                    let empty = header.split(' ').next().unwrap().ends_with(",0");
                    while seen + usize::from(!empty) < first {
                        made.push(rest.next().unwrap());
                        seen += 1;
                    }
                } else if let Some(came) = line.strip_prefix('+') {
                    made.push(came);
                } else {
                    let kept = line.strip_prefix(' ');
                    prop_assert_eq!(rest.next().unwrap(), kept.unwrap_or(&line[1..]));
                    seen += 1;
                    made.extend(kept);
                }
            }
            let made: Vec<String> = made.into_iter().chain(rest).map(str::to_owned).collect();
            prop_assert_eq!(made, after.lines().collect::<Vec<_>>());
        }
    }
}
