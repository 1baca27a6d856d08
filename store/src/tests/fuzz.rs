//! The fuzz targets without a fuzzer: over random bytes, and over the corpus in `fuzz/corpus`.

use super::conformance::cases;
use crate::fuzzing::{TARGETS, seeds};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use std::fs;
use std::path::PathBuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// If `KSTORE_WRITE_CORPUS` is set, first writes the seed inputs.
#[test]
fn the_kept_corpus_finds_no_defect() {
    if std::env::var_os("KSTORE_WRITE_CORPUS").is_some() {
        for (target, seeds) in seeds() {
            fs::create_dir_all(corpus(target)).unwrap();
            for (at, seed) in seeds.iter().enumerate() {
                fs::write(corpus(target).join(format!("seed-{at}")), seed).unwrap();
            }
        }
    }
    let mut files = 0;
    for (target, run) in TARGETS {
        for entry in fs::read_dir(corpus(target)).into_iter().flatten() {
            run(&fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
    }
    assert!(files > 8, "the corpus was found: {files} files");
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn random_bytes_find_no_defect(bytes in vec(any::<u8>(), 0..600)) {
        TARGETS.iter().for_each(|(_, run)| run(&bytes));
    }

    #[test]
    fn damaged_seed_inputs_find_no_defect(at in any::<u16>(), flip in 1u8..) {
        for (target, seeds) in seeds() {
            let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
            for mut seed in seeds {
                let len = seed.len().max(1);
                if let Some(byte) = seed.get_mut(usize::from(at) % len) {
                    *byte ^= flip;
                }
                run(&seed);
            }
        }
    }
}
