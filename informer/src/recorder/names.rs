//! [`Names`]: unique event names, `object.time` as in Kubernetes. The names of one object ascend with time,
//! so that a list shows its events in order, even within one second. Pure.

use jiff::Timestamp;

/// Longest name of an object.
const LONGEST: usize = 253;

/// Length of the suffix: a dot and sixteen hexadecimal digits.
const STAMP: usize = 17;

/// Low bits of the suffix that distinguish recorders; the other bits are the time in steps of 4,096 ns.
const SALT_BITS: u32 = 12;

/// Generator of event names, one per recorder.
pub(super) struct Names {
    /// The last assigned time, in steps.
    last: u64,
    /// Distinguishes names that several recorders assign within one step.
    salt: u64,
}

impl Names {
    pub(super) fn new(salt: u32) -> Self {
        Self { last: 0, salt: u64::from(salt) & ((1 << SALT_BITS) - 1) }
    }

    /// A new name for an event about the object with this name.
    pub(super) fn next(&mut self, object: &str, at: Timestamp) -> String {
        let now = u64::try_from(at.as_nanosecond()).unwrap_or(0) >> SALT_BITS;
        // Two events may fall into one step, above all in simulated time.
        self.last = now.max(self.last + 1);
        format!("{}.{:016x}", fitting(object), self.last << SALT_BITS | self.salt)
    }
}

/// The object name as a valid prefix of an event name: some kinds allow longer names and other characters.
fn fitting(object: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let lower = object.chars().map(|c| c.to_ascii_lowercase());
    let name: String = lower.map(|c| if fits(c) { c } else { '-' }).take(LONGEST - STAMP).collect();
    match name.trim_matches(['-', '.']) {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_ascend_with_time_and_differ_between_recorders() {
        let time = |ns| Timestamp::from_nanosecond(ns).unwrap();
        let (mut names, mut others) = (Names::new(0xF00D), Names::new(7));
        assert_eq!(names.next("web-0", time(0x18b1_6c22_34a1_0fff)), "web-0.18b16c2234a1000d");
        assert_eq!(names.next("web-0", time(0x18b1_6c22_34a1_0fff)), "web-0.18b16c2234a1100d");
        assert_eq!(others.next("web-0", time(0x18b1_6c22_34a1_0fff)), "web-0.18b16c2234a10007");
        // Later names sort later, also across recorders.
        let mut all = vec![];
        for at in 1..50 {
            let from = if at % 2 == 0 { &mut names } else { &mut others };
            all.push(from.next("web-0", time(0x18b1_6c22_34b0_0000 + at * 5_000)));
        }
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn every_object_name_yields_a_valid_event_name() {
        let (mut names, at) = (Names::new(0), Timestamp::from_nanosecond(0x1000).unwrap());
        assert_eq!(names.next("system:Node", at), "system-node.0000000000001000");
        assert!(names.next(&"x".repeat(253), at).len() <= LONGEST);
        assert!(names.next(":", at).starts_with("unnamed."));
        assert!(!names.next(&"a.".repeat(200), at).contains(".."));
    }
}
