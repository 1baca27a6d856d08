//! Fuzz targets of this crate: each takes any bytes and returns, or panics on a defect. Tests run them over random bytes and the stored
//! corpus. Not an API for users.

use crate::extender::{Answer, Call, Extender, Topic};
use crate::{Configuration, Gates, Registry};
use std::sync::Arc;
use std::time::Duration;

/// A fuzz target: its name and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: [FuzzTarget; 2] =
    [("extender_answer", extender_answer), ("scheduler_config", scheduler_config)];

/// Runs a fuzz target.
///
/// # Panics
/// The target found a defect, or there is no such target.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this crate");
    run(bytes);
}

/// A configuration is refused with reasons, or what it prints is the same configuration, and prints as the same text.
fn scheduler_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for gates in [Gates::default(), Gates::of(|_| true)] {
        let registry = Registry::in_tree_with(gates);
        match Configuration::parse(&text, &registry) {
            Err(error) => assert!(!error.reasons.is_empty(), "a refusal has a reason"),
            Ok(read) => {
                let printed = read.print();
                let again = Configuration::parse(&printed, &registry);
                let again = again.unwrap_or_else(|error| panic!("{error}\nin what it printed:\n{printed}"));
                assert_eq!(again.print(), printed, "what is printed reads as the same");
            }
        }
    }
}

/// Bytes are an answer or an error to each kind of call; an answer has no more than the bytes say.
fn extender_answer(bytes: &[u8]) {
    for node_cache_capable in [false, true] {
        let extender = Arc::new(Extender {
            url_prefix: "http://127.0.0.1:1".to_owned(),
            filter_verb: "filter".to_owned(),
            prioritize_verb: "prioritize".to_owned(),
            preempt_verb: "preempt".to_owned(),
            bind_verb: String::new(),
            weight: 1,
            enable_https: false,
            tls: None,
            timeout: Duration::from_secs(1),
            node_cache_capable,
            managed_resources: Vec::new(),
            is_ignorable: false,
        });
        for topic in [Topic::Filter([].into()), Topic::Prioritize([].into()), Topic::Preempt([].into())] {
            let entries = match Answer::read(&Call { extender: Arc::clone(&extender), topic }, bytes) {
                Ok(Answer::Filter(answer)) => {
                    answer.kept.len() + answer.failed.len() + answer.unresolvable.len()
                }
                Ok(Answer::Prioritize(scores)) => scores.len(),
                Ok(Answer::Preempt(victims)) => {
                    victims.iter().map(|(_, proposed)| 1 + proposed.uids.len()).sum()
                }
                Err(why) => {
                    assert!(!why.is_empty(), "a failure has a reason");
                    continue;
                }
            };
            assert!(entries <= bytes.len(), "{entries} entries of {} bytes", bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use proptest::prelude::{ProptestConfig, any, proptest};

    fn kept(target: &str) -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
        let files = std::fs::read_dir(folder).unwrap();
        let kept: Vec<_> = files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        assert!(kept.len() > 4, "the corpus of {target} was found: {} files", kept.len());
        kept
    }

    #[test]
    fn the_stored_corpus_finds_no_defect() {
        for (target, run) in TARGETS {
            kept(target).iter().for_each(|bytes| run(bytes));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn random_and_damaged_bytes_find_no_defect(random in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), flip in 1u8..) {
            for (target, run) in TARGETS {
                run(&random);
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
}
