//! [`Evictions`]: the evictions that the watch has not shown, and the pods that wait for them. Until then a
//! preemptor must not be tried again: it would see its victims on the node and choose others.

use crate::pod::Uid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Victims in flight by preemptor, and preemptors by victim.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    preemptors: BTreeMap<Uid, AwaitedVictims>,
    victims: BTreeMap<Uid, BTreeSet<Uid>>,
}

#[derive(Debug, Default)]
struct AwaitedVictims {
    uids: BTreeSet<Uid>,
    has_failed: bool,
}

/// A preemptor whose victims are all being deleted or gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// The preemptor.
    pub(crate) preemptor: Uid,
    /// Whether an eviction failed, so that the victim may still run.
    pub(crate) has_failed: bool,
}

impl Evictions {
    /// Adds the victims of a preemptor. False if there are none, so that the preemptor waits for nothing here.
    pub(crate) fn add<'a>(&mut self, preemptor: &Uid, victims: impl IntoIterator<Item = &'a Uid>) -> bool {
        self.remove_preemptor(preemptor);
        let uids: BTreeSet<Uid> = victims.into_iter().cloned().collect();
        for victim in &uids {
            self.victims.entry(Arc::clone(victim)).or_default().insert(Arc::clone(preemptor));
        }
        let waits = !uids.is_empty();
        if waits {
            self.preemptors.insert(Arc::clone(preemptor), AwaitedVictims { uids, has_failed: false });
        }
        waits
    }

    /// Whether the eviction of the pod is in flight.
    pub(crate) fn is_evicting(&self, victim: &Uid) -> bool {
        self.victims.contains_key(victim)
    }

    /// Whether no eviction is in flight.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.victims.is_empty()
    }

    /// Records that the victim is being deleted or gone, or that its eviction failed. Returns the preemptors that
    /// wait for no other victim.
    pub(crate) fn end(&mut self, victim: &Uid, has_failed: bool) -> Vec<Released> {
        let mut released = Vec::new();
        for preemptor in self.victims.remove(victim).unwrap_or_default() {
            let awaited = self.preemptors.get_mut(&preemptor).expect("both maps have the same pairs");
            awaited.uids.remove(victim);
            awaited.has_failed |= has_failed;
            if awaited.uids.is_empty() {
                let has_failed = awaited.has_failed;
                self.preemptors.remove(&preemptor);
                released.push(Released { preemptor, has_failed });
            }
        }
        released
    }

    /// Forgets a preemptor that no longer waits. Its evictions go on.
    pub(crate) fn remove_preemptor(&mut self, preemptor: &Uid) {
        for victim in self.preemptors.remove(preemptor).unwrap_or_default().uids {
            // The victim stays known as long as its eviction is in flight.
            if let Some(preemptors) = self.victims.get_mut(&victim) {
                preemptors.remove(preemptor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(text: &str) -> Uid {
        text.into()
    }

    #[test]
    fn a_preemptor_waits_for_its_last_victim() {
        let mut evictions = Evictions::default();
        assert!(!evictions.add(&uid("p"), []) && evictions.is_empty());
        assert!(evictions.add(&uid("p"), [&uid("a"), &uid("b")]));
        assert!(evictions.add(&uid("q"), [&uid("b")]));
        assert!(evictions.is_evicting(&uid("a")) && !evictions.is_evicting(&uid("p")));
        assert_eq!(evictions.end(&uid("a"), true), []);
        let released = |name: &str, has_failed| Released { preemptor: uid(name), has_failed };
        assert_eq!(evictions.end(&uid("b"), false), [released("p", true), released("q", false)]);
        assert!(evictions.end(&uid("b"), false).is_empty() && evictions.is_empty());
    }

    #[test]
    fn the_eviction_of_a_victim_goes_on_without_its_preemptor() {
        let mut evictions = Evictions::default();
        evictions.add(&uid("p"), [&uid("a")]);
        evictions.remove_preemptor(&uid("p"));
        assert!(evictions.is_evicting(&uid("a")), "another preemptor need not evict it again");
        assert!(evictions.end(&uid("a"), false).is_empty() && evictions.is_empty());
    }
}
