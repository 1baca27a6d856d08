//! PodGroupWorkloadExists: a new PodGroup that names a template of a Workload is refused if there is no such Workload or template.
//! Kubernetes 1.36 has the plugin; 1.37 does not, where the reference has another name.

use super::pod_group_protection::{GROUP, served};
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::{list, text};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[(GROUP, "podgroups")],
    subresources: &[""],
    validates: &[Operation::Create],
    ..Row::new("PodGroupWorkloadExists", || Arc::new(PodGroupWorkloadExists))
};

struct PodGroupWorkloadExists;

impl Plugin for PodGroupWorkloadExists {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let reference = new.map_or(&Value::Null, |group| &group["spec"]["podGroupTemplateRef"]["workload"]);
        let (name, template) = (text(&reference["workloadName"]), text(&reference["podGroupTemplateName"]));
        if !reference.is_object() {
            return Ok(());
        }
        let workloads = served(&cluster.kinds(), "workloads");
        let workload = workloads.and_then(|row| cluster.get(row, subject.namespace, name));
        let Some(workload) = workload else {
            return subject.refuse(&format!("PodGroup rejected: Workload {name:?} not found"));
        };
        if list(&workload["spec"]["podGroupTemplates"]).iter().any(|own| own["name"] == template) {
            return Ok(());
        }
        let why = format!("PodGroup rejected: PodGroupTemplate {template:?} not found in Workload {name:?}");
        subject.refuse(&why)
    }
}
