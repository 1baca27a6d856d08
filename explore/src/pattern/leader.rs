//! `leader`: at each distinct write of a program that takes a Lease, the Lease gets another holder, the program stands still, or a second
//! instance runs.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Trigger};
use crate::record::RecordedWrite;

/// Kind of the objects of leader election.
const LEASES: &str = "leases.coordination.k8s.io";
/// Time of the cluster for which a program stands still or runs twice: longer than a Lease usually lasts.
const AWAY: &str = "1m";

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for write in writes {
        let mut of_program = traced.run().writes.iter().filter(|other| other.client == write.client);
        let Some(lease) = of_program.find(|other| other.key.resource == LEASES) else { continue };
        let lease = format!("{}/{}", lease.key.namespace, lease.key.name);
        let (program, until) = (write.client.clone(), || Box::new(Trigger::after(AWAY)));
        let forms = [
            Operation::TakeLease { lease, until: until() },
            Operation::Pause { program: program.clone(), until: until() },
            Operation::Second { program, until: until() },
        ];
        for form in forms {
            let action = PlannedAction::at(traced.at_write(write, RequestPhase::Arrived), form);
            plans.push(plan(PatternId::Leader, Traced::subject(write), vec![action]));
        }
    }
    plans
}
