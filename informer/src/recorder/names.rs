//! [`Names`]: a name for each event, `object.time` as in Kubernetes, that no other event has. Pure.

use jiff::Timestamp;

/// Longest name of an object.
const LONGEST: usize = 253;

/// Dot and sixteen hexadecimal digits.
const STAMP: usize = 17;

/// See the module.
pub(super) struct Names {
    last: u64,
    /// Keeps apart what recorders tell of one object at one time.
    salt: u64,
}

impl Names {
    pub(super) fn new(salt: u32) -> Self {
        Self { last: 0, salt: salt.into() }
    }

    /// A new name for an event about the object of this name.
    pub(super) fn next(&mut self, object: &str, at: Timestamp) -> String {
        let now = u64::try_from(at.as_nanosecond()).unwrap_or(0);
        // Two things may happen in the same nanosecond, above all in simulated time.
        self.last = now.max(self.last + 1);
        format!("{}.{:016x}", fitting(object), self.last ^ self.salt)
    }
}

/// The name of an object as far as it may begin the name of an event: some kinds allow more, and longer, names.
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
    fn names_of_one_nanosecond_differ_and_say_the_object_and_the_time() {
        let (mut names, at) = (Names::new(0), Timestamp::from_nanosecond(0x10).unwrap());
        assert_eq!(names.next("web-0", at), "web-0.0000000000000010");
        assert_eq!(names.next("web-0", at), "web-0.0000000000000011");
        assert_ne!(Names::new(1).next("web-0", at), Names::new(2).next("web-0", at));
    }

    #[test]
    fn every_object_gives_a_name_that_events_may_have() {
        let (mut names, at) = (Names::new(0), Timestamp::from_nanosecond(0x10).unwrap());
        assert_eq!(names.next("system:Node", at), "system-node.0000000000000010");
        assert!(names.next(&"x".repeat(253), at).len() <= LONGEST);
        assert!(names.next(":", at).starts_with("unnamed."));
        assert!(!names.next(&"a.".repeat(200), at).contains(".."));
    }
}
