//! Runs the fuzz targets without a fuzzer: on random bytes, and on the corpus in `fuzz/corpus`.

use super::TARGETS;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

fn kept(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(corpus(target)).unwrap();
    files.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_stored_corpus_finds_no_defect() {
    for (target, run) in TARGETS {
        let kept = kept(target);
        assert!(kept.len() > 4, "the corpus of {target} was found: {} files", kept.len());
        kept.iter().for_each(|bytes| run(bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_find_no_defect(bytes in vec(any::<u8>(), 0..300)) {
        TARGETS.iter().for_each(|(_, run)| run(&bytes));
    }

    #[test]
    fn a_damaged_corpus_finds_no_defect(at in any::<usize>(), flip in 1u8..) {
        for (target, run) in TARGETS {
            for mut bytes in kept(target) {
                let len = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at % len) {
                    *byte ^= flip;
                }
                run(&bytes);
            }
        }
    }
}
