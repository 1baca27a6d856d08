//! Defaults of API priority and fairness.
//!
//! Follows `SetDefaults_FlowSchemaSpec` and `SetDefaults_LimitedPriorityLevelConfiguration`.

use super::{default, default_nonzero, make};
use serde_json::Value;

pub(crate) fn flow_schema(object: &mut Value) {
    default_nonzero(make(object, "spec"), "matchingPrecedence", 1000);
}

pub(crate) fn priority_level(object: &mut Value) {
    let spec = make(object, "spec");
    if spec["type"] == "Exempt" {
        let exempt = make(spec, "exempt");
        default(exempt, "nominalConcurrencyShares", 0);
        default(exempt, "lendablePercent", 0);
    } else if spec["limited"].is_object() {
        let limited = make(spec, "limited");
        default(limited, "nominalConcurrencyShares", 30);
        default(limited, "lendablePercent", 0);
        let response = make(limited, "limitResponse");
        if response["queuing"].is_object() {
            let queuing = make(response, "queuing");
            for (name, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                default_nonzero(queuing, name, value);
            }
        }
    }
}
