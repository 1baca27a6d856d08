//! Fuzz target of this crate: it takes any bytes and returns, or panics on a defect. A test runs it over random bytes and the stored
//! corpus. Not an API for users.

use crate::{Addresses, StageFunctions, StageSet};
use jiff::Timestamp;
use serde_json::{Deserializer, Value};

/// Documents that are compiled of one input, so that an input takes a bounded time.
const DOCUMENTS: usize = 16;

/// No node and no pod has an address.
struct NoAddresses;

impl Addresses for NoAddresses {
    fn node(&self, _: &str) -> Option<String> {
        None
    }
    fn pod(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Reads JSON documents, an object and then stages, and plays the stages that compile on the object. A second run has the same outcome.
///
/// # Panics
/// A defect was found.
pub fn stages(bytes: &[u8]) {
    let documents = Deserializer::from_slice(bytes).into_iter::<Value>().map_while(Result::ok);
    let documents: Vec<Value> = documents.take(DOCUMENTS).collect();
    let Some((object, stages)) = documents.split_first() else { return };
    let Ok(set) = StageSet::read(stages.iter().map(|stage| ("fuzz", stage))) else { return };
    let now = Timestamp::UNIX_EPOCH;
    let functions = StageFunctions { now, start: now, version: "v1", object, addresses: &NoAddresses };
    for kind in set.kinds() {
        let Some(lifecycle) = set.lifecycle(kind) else { continue };
        for draw in [0, 7, u64::MAX] {
            let chosen = lifecycle.choose(object, draw);
            assert_eq!(lifecycle.choose(object, draw), chosen, "the choice follows from the draw");
            let Ok(Some(number)) = chosen else { continue };
            let stage = lifecycle.stage(number).expect("a chosen stage exists");
            assert_eq!(stage.delay(object, now, draw), stage.delay(object, now, draw));
            for step in 0..stage.steps() {
                let effect = || format!("{:?}", stage.effect(step, object, &functions));
                assert_eq!(effect(), effect(), "an effect follows from the object");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    fn kept() -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/kwok");
        let files = std::fs::read_dir(folder).unwrap();
        let kept: Vec<_> = files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        assert!(kept.len() > 4, "the corpus was found: {} files", kept.len());
        kept
    }

    #[test]
    fn the_stored_corpus_finds_no_defect() {
        kept().iter().for_each(|bytes| super::stages(bytes));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn random_and_damaged_bytes_find_no_defect(random in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), flip in 1u8..) {
            super::stages(&random);
            for mut bytes in kept() {
                let len = bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at % len) {
                    *byte ^= flip;
                }
                super::stages(&bytes);
            }
        }
    }
}
