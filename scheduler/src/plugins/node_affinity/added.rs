//! [`AddedAffinity`]: the node affinity that a profile adds to that of every pod (`addedAffinity`).

use crate::affinity::{NodeAffinity, Preference, Term};
use crate::fields::Fields;
use crate::node::NodeInfo;
use kstore_api::name::qualified_name;
use kstore_api::schema;
use kstore_api::schema::decode::{FieldProblem, Mode, normalize};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NAME: &str = "addedAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The affinity, and the document that it was read from.
#[derive(Default)]
pub(super) struct AddedAffinity {
    affinity: NodeAffinity,
    document: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffinityDoc {
    required_during_scheduling_ignored_during_execution: Option<SelectorDoc>,
    preferred_during_scheduling_ignored_during_execution: Vec<Preference>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorDoc {
    node_selector_terms: Vec<Term>,
}

impl AddedAffinity {
    /// Reads the member; an absent one adds nothing.
    pub(super) fn read(args: &mut Fields<'_>) -> Self {
        let Some(mut document) = args.value(NAME) else { return Self::default() };
        let is_valid = decode(args, &mut document).is_ok() && check(args, &document);
        let read = if is_valid { serde_json::from_value(document.clone()).ok() } else { None };
        let read: AffinityDoc = read.unwrap_or_default();
        let required = read.required_during_scheduling_ignored_during_execution;
        let preferred = read.preferred_during_scheduling_ignored_during_execution;
        let required = required.map(|selector| selector.node_selector_terms);
        Self { affinity: NodeAffinity::new(BTreeMap::new(), required, preferred), document: Some(document) }
    }

    /// The member as it was read.
    pub(super) fn print(&self) -> Value {
        self.document.as_ref().map_or_else(|| json!({}), |document| json!({ NAME: document }))
    }

    /// Whether every node is admitted.
    pub(super) fn is_open(&self) -> bool {
        self.affinity.is_open()
    }

    /// Whether the node is admitted.
    pub(super) fn admits(&self, node: &NodeInfo) -> bool {
        self.affinity.admits(&node.name, &node.labels)
    }

    /// Whether some nodes are preferred.
    pub(super) fn has_preferences(&self) -> bool {
        !self.affinity.preferred.is_empty()
    }

    /// The weights of the preferred terms that the node satisfies.
    pub(super) fn preference(&self, node: &NodeInfo) -> i64 {
        self.affinity.preference(&node.name, &node.labels)
    }
}

/// Decodes the document strictly.
fn decode(args: &mut Fields<'_>, document: &mut Value) -> Result<(), ()> {
    let ty = schema::lookup("io.k8s.api.core.v1.NodeAffinity").expect("core/v1 has node affinity");
    match normalize(document, ty, Mode::Whole) {
        Ok(unknown) => {
            for problem in unknown {
                let text = match problem {
                    FieldProblem::Unknown(path) => format!("unknown field \"{NAME}.{path}\""),
                    FieldProblem::Duplicate(path) => format!("duplicate field \"{NAME}.{path}\""),
                };
                args.strict(text);
            }
            Ok(())
        }
        Err(error) => {
            args.undecodable(NAME, &error.to_string());
            Err(())
        }
    }
}

/// Whether the requirements of all terms are valid.
fn check(args: &mut Fields<'_>, document: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut is_valid = true;
    for (index, term) in list(&document[REQUIRED]["nodeSelectorTerms"]).iter().enumerate() {
        is_valid &= check_term(args, &format!("{NAME}.{REQUIRED}.nodeSelectorTerms[{index}]"), term);
    }
    for (index, preferred) in list(&document[PREFERRED]).iter().enumerate() {
        is_valid &=
            check_term(args, &format!("{NAME}.{PREFERRED}[{index}].preference"), &preferred["preference"]);
    }
    is_valid
}

fn check_term(args: &mut Fields<'_>, place: &str, term: &Value) -> bool {
    let list = |name: &str| term[name].as_array().cloned().unwrap_or_default();
    let mut is_valid = true;
    for (index, requirement) in list("matchExpressions").iter().enumerate() {
        is_valid &= check_label(args, &format!("{place}.matchExpressions[{index}]"), requirement);
    }
    for (index, requirement) in list("matchFields").iter().enumerate() {
        is_valid &= check_field(args, &format!("{place}.matchFields[{index}]"), requirement);
    }
    is_valid
}

fn check_label(args: &mut Fields<'_>, place: &str, requirement: &Value) -> bool {
    let (key, operator, values) = parts(requirement);
    let fault = match (operator, &values[..]) {
        ("In" | "NotIn", []) => Some("for 'in', 'notin' operators, values set can't be empty"),
        ("Exists" | "DoesNotExist", [_, ..]) => {
            Some("values set must be empty for exists and does not exist")
        }
        ("Gt" | "Lt", [value]) if value.parse::<i64>().is_err() => {
            Some("for 'Gt', 'Lt' operators, the value must be an integer")
        }
        ("Gt" | "Lt", values) if values.len() != 1 => {
            Some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
        _ => None,
    };
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    if !operators.contains(&operator) {
        args.not_supported(&format!("{place}.operator"), operator, &operators);
        return false;
    }
    if let Some(fault) = fault {
        args.invalid(&format!("{place}.values"), &values, fault);
    }
    let faults = qualified_name(key);
    faults.iter().for_each(|fault| args.invalid(&format!("{place}.key"), key, fault.clone()));
    fault.is_none() && faults.is_empty()
}

fn check_field(args: &mut Fields<'_>, place: &str, requirement: &Value) -> bool {
    let (_, operator, values) = parts(requirement);
    if !["In", "NotIn"].contains(&operator) {
        args.not_supported(&format!("{place}.operator"), operator, &["In", "NotIn"]);
        return false;
    }
    if values.len() != 1 {
        args.invalid(&format!("{place}.values"), &values, "must have one element");
    }
    values.len() == 1
}

fn parts(requirement: &Value) -> (&str, &str, Vec<&str>) {
    let text = |name: &str| requirement[name].as_str().unwrap_or_default();
    let values = requirement["values"].as_array();
    (text("key"), text("operator"), values.into_iter().flatten().filter_map(Value::as_str).collect())
}
