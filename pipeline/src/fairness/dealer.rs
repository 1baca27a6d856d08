//! Shuffle sharding: deals each flow a few of a level's queues, by the flow's hash. Two flows rarely have the
//! same hand, so that a flow that fills all its queues leaves other flows at least one. Pure.

/// The largest hand. The validation of priority levels bounds the hash bits of a hand by 60, and each card
/// takes at least one bit.
const HAND_MAX: usize = 60;

/// Calls `each` with the `hand` distinct queues, of `deck` queues, that `hash` deals. At most [`HAND_MAX`] and
/// at most the whole deck.
pub(super) fn deal(mut hash: u64, deck: usize, hand: usize, mut each: impl FnMut(usize)) {
    let mut dealt = [0usize; HAND_MAX];
    for count in 0..hand.min(deck).min(HAND_MAX) {
        let left = u64::try_from(deck - count).unwrap_or(u64::MAX);
        let mut card = usize::try_from(hash % left).unwrap_or(0);
        hash /= left;
        // `card` counts the queues that are not dealt yet; the dealt ones below it are skipped.
        let mut rank = 0;
        while rank < count && card >= dealt[rank] {
            card += 1;
            rank += 1;
        }
        dealt.copy_within(rank..count, rank + 1);
        dealt[rank] = card;
        each(card);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn hand(hash: u64, deck: usize, size: usize) -> Vec<usize> {
        let mut cards = Vec::new();
        deal(hash, deck, size, |card| cards.push(card));
        cards
    }

    proptest! {
        #[test]
        fn a_hand_has_distinct_queues_of_the_deck(hash: u64, deck in 1usize..200, size in 1usize..12) {
            let cards = hand(hash, deck, size);
            let distinct: BTreeSet<usize> = cards.iter().copied().collect();
            prop_assert_eq!((cards.len(), distinct.len()), (size.min(deck), size.min(deck)));
            prop_assert!(cards.iter().all(|card| *card < deck));
        }
    }

    #[test]
    fn each_ordered_hand_is_dealt_by_the_same_number_of_hashes() {
        let (deck, size) = (5usize, 3usize);
        let ordered_hands = 5 * 4 * 3u64;
        let mut counts = BTreeMap::<Vec<usize>, u64>::new();
        (0..ordered_hands * 7).for_each(|hash| *counts.entry(hand(hash, deck, size)).or_default() += 1);
        assert_eq!(counts.len() as u64, ordered_hands);
        assert!(counts.values().all(|count| *count == 7));
    }
}
