//! Unified diff of two values' indented JSON, as Kubernetes appends it to refused changes. Members have the
//! names of the manifest. It is for people, not a patch: long diffs are truncated.

use crate::limits::{DIFF_LINES_MAX, DIFF_MAX};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use similar::TextDiff;

/// Lines of context around each difference.
const CONTEXT: usize = 3;

/// Removed (`-`) and added (`+`) lines with context. Empty if the values have equal JSON; a note if they are
/// too long to compare.
pub(crate) fn unified(old: &Value, new: &Value) -> String {
    let (old, new) = (indented(old), indented(new));
    if old.lines().count() + new.lines().count() > DIFF_LINES_MAX {
        return "(too long for a comparison)\n".to_owned();
    }
    cut(TextDiff::from_lines(&old, &new).unified_diff().context_radius(CONTEXT).to_string())
}

/// Indented JSON with a final line break, so that the last line compares like the others.
fn indented(value: &Value) -> String {
    let mut out = Vec::new();
    let mut writer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b" "));
    value.serialize(&mut writer).expect("a value is written to memory");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is text")
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
    fn diffs_show_removed_and_added_lines_with_context() {
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
    fn long_diffs_are_truncated() {
        let long = |n: usize| json!((0..n).collect::<Vec<_>>());
        let (few, many) = (long(10), long(3_000));
        let text = unified(&few, &many);
        assert!(text.len() < DIFF_MAX + 10 && text.ends_with("…\n"), "{}", text.len());
        assert_eq!(unified(&long(2_000), &long(2_000)), "(too long for a comparison)\n");
    }

    proptest! {
        #[test]
        fn applying_a_diff_gives_the_new_text(old in prop::collection::vec(0..4_u8, 0..12), new in prop::collection::vec(0..4_u8, 0..12)) {
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
