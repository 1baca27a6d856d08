//! The plugin DefaultPreemption: pods of lower priority are evicted for a pod that fits nowhere. `preemption` has the rule; the plugin has
//! its arguments, and a profile without it evicts no pod. At PreEnqueue a pod waits until the API has its evictions.

use crate::event::EventSet;
use crate::fields::Fields;
use crate::limits::{MIN_CANDIDATE_NODES, PERCENTAGE_OF_CANDIDATE_NODES};
use crate::plugin::{CandidateShare, ExtensionPoint, Plugin, Row};
use serde_json::{Value, json};

const PERCENTAGE: &str = "minCandidateNodesPercentage";
const MINIMUM: &str = "minCandidateNodesAbsolute";

/// The plugin, with how many candidates it looks for.
pub(crate) struct DefaultPreemption(CandidateShare);

impl Default for DefaultPreemption {
    fn default() -> Self {
        Self(CandidateShare { percentage: PERCENTAGE_OF_CANDIDATE_NODES, minimum: MIN_CANDIDATE_NODES })
    }
}

impl Plugin for DefaultPreemption {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "DefaultPreemption",
        points: &[ExtensionPoint::PreEnqueue, ExtensionPoint::PostFilter],
        weight: 0,
        reasons: &[],
        events: EventSet::NONE,
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let percentage = args.integer(PERCENTAGE).unwrap_or(PERCENTAGE_OF_CANDIDATE_NODES as i64);
        let minimum = args.integer(MINIMUM).unwrap_or(MIN_CANDIDATE_NODES as i64);
        if !(0..=100).contains(&percentage) {
            args.invalid(PERCENTAGE, &percentage, "not in valid range [0, 100]");
        }
        if minimum < 0 {
            args.invalid(MINIMUM, &minimum, "not in valid range [0, inf)");
        }
        if (percentage, minimum) == (0, 0) {
            for (one, other) in [(PERCENTAGE, MINIMUM), (MINIMUM, PERCENTAGE)] {
                args.invalid(one, &0, format!("cannot be zero at the same time as {other}"));
            }
        }
        // Refused values are not used.
        let size = |number| usize::try_from(number).unwrap_or_default();
        Some(Self(CandidateShare { percentage: size(percentage), minimum: size(minimum) }))
    }

    fn arguments(&self) -> Option<Value> {
        Some(json!({ PERCENTAGE: self.0.percentage, MINIMUM: self.0.minimum }))
    }

    fn preempts(&self) -> Option<CandidateShare> {
        Some(self.0)
    }
}
