//! [`History`]: what an autoscaler recommended and did lately. It is in memory only: after a restart an autoscaler begins with the size
//! that it finds, as upstream. Pure.

use jiff::{SignedDuration, Timestamp};

/// A number of replicas, and when it was recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recommendation {
    pub replicas: i32,
    pub at: Timestamp,
}

/// By how many replicas a target grew or shrank, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScaleEvent {
    pub change: i32,
    pub at: Timestamp,
}

/// What one autoscaler recommended and did. Entries that no window or policy reaches are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// What the metrics asked for, before any bound.
    pub recommendations: Vec<Recommendation>,
    /// Growth.
    pub ups: Vec<ScaleEvent>,
    /// Shrinkage, as positive numbers.
    pub downs: Vec<ScaleEvent>,
}

/// `span` before `now`.
pub(crate) fn before(now: Timestamp, span: i32) -> Timestamp {
    now.saturating_sub(SignedDuration::from_secs(span.into())).unwrap_or(Timestamp::MIN)
}

impl History {
    /// Begins with the size that the target has.
    pub(crate) fn begin(&mut self, replicas: i32, at: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at });
        }
    }

    /// Adds a recommendation and drops those older than `window` seconds.
    pub(crate) fn recommend(&mut self, replicas: i32, window: i32, now: Timestamp) {
        let cutoff = before(now, window);
        // A newer recommendation of the same number is in every window that an older one is in.
        self.recommendations.retain(|one| one.at >= cutoff && one.replicas != replicas);
        self.recommendations.push(Recommendation { replicas, at: now });
    }

    /// Adds a change of the target from `old` to `new` replicas, and drops those that are older than the periods of the policies for
    /// growth and shrinkage, in seconds.
    pub(crate) fn rescaled(&mut self, (old, new): (i32, i32), (up, down): (i32, i32), now: Timestamp) {
        self.ups.retain(|one| one.at >= before(now, up));
        self.downs.retain(|one| one.at >= before(now, down));
        if new > old {
            self.ups.push(ScaleEvent { change: new.saturating_sub(old), at: now });
        } else if new < old {
            self.downs.push(ScaleEvent { change: old.saturating_sub(new), at: now });
        }
    }

    /// Growth less shrinkage within the last `period` seconds.
    pub(crate) fn change_within(&self, period: i32, now: Timestamp) -> i32 {
        let cutoff = before(now, period);
        let sum = |events: &[ScaleEvent]| {
            events.iter().filter(|one| one.at > cutoff).fold(0_i32, |sum, one| sum.saturating_add(one.change))
        };
        sum(&self.ups).saturating_sub(sum(&self.downs))
    }
}
