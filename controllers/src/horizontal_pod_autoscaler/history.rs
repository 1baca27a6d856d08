//! [`History`]: recent recommendations and scale events of an autoscaler. In memory only, as upstream: after
//! a restart an autoscaler starts from the current size. Pure.

use jiff::{SignedDuration, Timestamp};

/// A recommended number of replicas and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recommendation {
    pub replicas: i32,
    pub at: Timestamp,
}

/// A change of the target's size and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScaleEvent {
    pub change: i32,
    pub at: Timestamp,
}

/// Recent recommendations and scale events of one autoscaler. Entries outside of all windows and periods are
/// dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Proposals of the metrics, before any bound.
    pub recommendations: Vec<Recommendation>,
    /// Scale-up events.
    pub ups: Vec<ScaleEvent>,
    /// Scale-down events, as positive numbers.
    pub downs: Vec<ScaleEvent>,
}

/// `span` seconds before `now`.
pub(crate) fn before(now: Timestamp, span: i32) -> Timestamp {
    now.saturating_sub(SignedDuration::from_secs(span.into())).unwrap_or(Timestamp::MIN)
}

impl History {
    /// Starts with the current size of the target.
    pub(crate) fn begin(&mut self, replicas: i32, at: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas, at });
        }
    }

    /// Adds a recommendation and drops those older than `window` seconds.
    pub(crate) fn recommend(&mut self, replicas: i32, window: i32, now: Timestamp) {
        let cutoff = before(now, window);
        // A newer recommendation of the same number is in every window of the older one.
        self.recommendations.retain(|one| one.at >= cutoff && one.replicas != replicas);
        self.recommendations.push(Recommendation { replicas, at: now });
    }

    /// Adds a change from `old` to `new` replicas, and drops events older than the policy periods for
    /// scale-up and scale-down, in seconds.
    pub(crate) fn rescaled(&mut self, (old, new): (i32, i32), (up, down): (i32, i32), now: Timestamp) {
        self.ups.retain(|one| one.at >= before(now, up));
        self.downs.retain(|one| one.at >= before(now, down));
        if new > old {
            self.ups.push(ScaleEvent { change: new.saturating_sub(old), at: now });
        } else if new < old {
            self.downs.push(ScaleEvent { change: old.saturating_sub(new), at: now });
        }
    }

    /// Net growth within the last `period` seconds.
    pub(crate) fn change_within(&self, period: i32, now: Timestamp) -> i32 {
        let cutoff = before(now, period);
        let sum = |events: &[ScaleEvent]| {
            events.iter().filter(|one| one.at > cutoff).fold(0_i32, |sum, one| sum.saturating_add(one.change))
        };
        sum(&self.ups).saturating_sub(sum(&self.downs))
    }
}
