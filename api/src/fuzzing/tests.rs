//! The fuzz targets without a fuzzer: random bytes, and the corpus that is kept in `fuzz/corpus`.

use std::fs;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use serde_json::json;

use super::TARGETS;
use crate::wire::protobuf;

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target)
}

/// Bytes that targets get far with: what fuzzers begin with.
fn seeds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    let texts = ["a,!b,x=1,a!=2", "a in (1,2),b notin (a),x>1", "metadata.name=a,spec.nodeName!=b\\,c"];
    let dice =
        |start: u32| (0..200_u32).map(|at| (at * 37 + start * 101).to_le_bytes()[0] ^ at as u8).collect();
    let mut out = vec![
        ("protobuf", vec![protobuf::encode(&pod).expect("a pod can be encoded")]),
        ("selector", texts.map(|text| text.as_bytes().to_vec()).to_vec()),
    ];
    let rolled = ["apply", "json_patch", "merge_patch", "protobuf_object", "strategic_patch"];
    out.extend(rolled.map(|target| (target, (1..4).map(dice).collect())));
    out
}

/// With `KSTORE_WRITE_CORPUS` set, first writes what our own code makes.
#[test]
fn the_kept_corpus_finds_nothing() {
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
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_find_nothing(bytes in vec(any::<u8>(), 0..600)) {
        TARGETS.iter().for_each(|(_, run)| run(&bytes));
    }

    #[test]
    fn texts_of_selectors_find_nothing(text in "[abx!=<>(), in12\\\\.-]{0,24}") {
        super::selectors(text.as_bytes());
    }

    #[test]
    fn what_our_own_code_makes_finds_nothing_when_it_is_damaged(at in any::<u16>(), flip in 1u8..) {
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
