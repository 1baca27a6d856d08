//! Fuzz target of this crate: it takes any bytes and returns, or panics on a defect. A test runs it over random bytes and the stored
//! corpus. Not an API for users.

use crate::{Limits, Missing, NoFunctions, Template};
use serde_json::Value;

/// What templates are rendered for: a value of each type.
const DATA: &str = r#"{
    "name": "web", "n": 3, "f": 1.5, "yes": true, "none": null, "list": [1, "b", {"c": [2]}],
    "metadata": {"labels": {"a": "b"}, "creationTimestamp": "2026-01-02T03:04:05Z"}
}"#;

/// A template that parses renders within its limits, twice to the same text.
///
/// # Panics
/// A defect was found.
pub fn template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(template) = Template::parse(&text, &NoFunctions) else { return };
    let data: Value = serde_json::from_str(DATA).expect("the data are JSON");
    for missing in [Missing::Null, Missing::Refused] {
        let limits = Limits { steps: 2_000, bytes: 16 << 10, missing };
        let rendered = template.render(&data, &NoFunctions, limits);
        if let Ok(text) = &rendered {
            assert!(text.len() <= limits.bytes, "{} bytes", text.len());
        }
        assert_eq!(template.render(&data, &NoFunctions, limits), rendered, "a run changes nothing");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    fn kept() -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/go_template");
        let files = std::fs::read_dir(folder).unwrap();
        let kept: Vec<_> = files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        assert!(kept.len() > 4, "the corpus was found: {} files", kept.len());
        kept
    }

    #[test]
    fn the_stored_corpus_finds_no_defect() {
        kept().iter().for_each(|bytes| super::template(bytes));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn random_and_damaged_bytes_find_no_defect(random in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), flip in 1u8..) {
            super::template(&random);
            for mut bytes in kept() {
                let len = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at % len) {
                    *byte ^= flip;
                }
                super::template(&bytes);
            }
        }
    }
}
