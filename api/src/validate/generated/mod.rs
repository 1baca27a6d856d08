//! Generated validation: rules that Kubernetes' API types state about their members, which servers enforce since 1.37, and for Workloads
//! and PodGroups since 1.36. One validator runs them for every kind, after the hand-written rules, which still hold in all versions. Where
//! a generated rule reports the same fault of the same field, its error takes the place of the hand-written one.
//!
//! # Notation of `schema/rules.txt`
//!
//! ```text
//! autoscaling/v2 HorizontalPodAutoscalerSpec minReplicas minimum=0 if=HPAScaleToZero
//! ```
//!
//! A line is a package, a type, a member and a rule; `if` and `unless` name a feature gate. Rules of other forms (unions, formats, keys of
//! lists, enumerations) are not in the file: the hand-written rules report these faults in the same words.
//!
//! Follows `ValidateDeclarativelyWithMigrationChecks`.

mod rule;
#[cfg(test)]
mod tests;

use crate::field::{ErrorList, FieldError, Path};
use crate::gate::GateSet;
use crate::object::{list, semantically_equal};
use crate::resource::Resource;
use crate::schema::marked::{FieldsInOrder, MarkedFields};
use crate::schema::{Field, ListType, Shape, Type};
use crate::version::Minor;
use rule::Rule;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

const FILE: &str = include_str!("../../../schema/rules.txt");

/// The first version that enforces the rules.
const FIRST: Minor = Minor::V37;

/// Group and version of the kinds whose rules an earlier version enforces, too.
const EARLIER: (&str, &str) = ("scheduling.k8s.io", "v1alpha2");

/// The rules of a member: package, type and member.
type Rules = BTreeMap<(&'static str, &'static str, &'static str), Vec<RuleLine>>;

/// A rule, and the feature gate on which it depends.
struct RuleLine {
    rule: Rule,
    /// The gate, and the state in which the rule holds.
    condition: Option<(&'static str, bool)>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut rules = Rules::new();
    for line in FILE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("incomplete line: {line}"));
        let (key, rule) = ((word(), word(), word()), word());
        let rule = Rule::parse(rule).unwrap_or_else(|| panic!("unknown rule: {line}"));
        rules.entry(key).or_default().push(RuleLine { rule, condition: words.next().map(condition) });
    }
    rules
});

/// The gate of a condition, and the state that it asks for.
fn condition(text: &'static str) -> (&'static str, bool) {
    match text.split_once('=') {
        Some(("if", gate)) => (gate, true),
        Some(("unless", gate)) => (gate, false),
        _ => panic!("unknown condition: {text}"),
    }
}

/// Whether a gate decides about a rule.
pub(crate) fn is_of_rules(gate: &str) -> bool {
    RULES.values().flatten().any(|line| line.condition.is_some_and(|(name, _)| name == gate))
}

/// The rules of a member that hold in a version with these gates.
fn rules_of(ty: &Type, field: &Field, (minor, gates): View) -> impl Iterator<Item = Rule> + Clone {
    let lines = RULES.get(&(ty.package.short, ty.name, field.name)).into_iter().flatten();
    let holds =
        move |line: &&RuleLine| line.condition.is_none_or(|(gate, is_on)| gates.has(minor, gate) == is_on);
    lines.filter(holds).map(|line| line.rule)
}

/// The version and the gates of a server.
type View = (Minor, GateSet);

/// Where objects of a version have members with rules. Few types have any: a write looks at these alone.
fn ruled_fields(minor: Minor) -> &'static FieldsInOrder {
    static ALL: [OnceLock<FieldsInOrder>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    ALL[minor as usize].get_or_init(|| {
        let with_rules = |ty: &'static Type| {
            let owner = (ty.package.short, ty.name);
            let rules = RULES.range((owner.0, owner.1, "")..);
            let members = rules.map(|(key, _)| key).take_while(|key| (key.0, key.1) == owner);
            members.filter_map(|key| ty.fields.iter().find(|field| field.name == key.2)).collect()
        };
        MarkedFields::find(minor, with_rules).in_order()
    })
}

/// Adds the errors of generated rules to those of hand-written ones, and removes those that they replace. `old` is the object that an
/// update replaces: what it does not change is not judged.
pub(super) fn errors(resource: &Resource, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let is_enforced = resource.minor >= FIRST || (resource.group, resource.version) == EARLIER;
    let Some(ty) = resource.object_type().filter(|_| is_enforced) else { return };
    let mut found = Vec::new();
    let walk = Walk { ruled: ruled_fields(resource.minor), view: (resource.minor, resource.gates) };
    walk.members(&mut found, &Path::ROOT, ty, new, old);
    for own in &found {
        errors.retain(|other| !rule::is_replaced(other, own));
    }
    found.into_iter().for_each(|error| errors.push(error));
}

/// Where the rules of one write are, and which of them hold.
struct Walk {
    ruled: &'static FieldsInOrder,
    view: View,
}

impl Walk {
    /// Judges the members of an object in the order of its type. Its depth is that of the decoded object.
    fn members(
        &self,
        found: &mut Vec<FieldError>,
        path: &Path<'_>,
        ty: &'static Type,
        new: &Value,
        old: Option<&Value>,
    ) {
        let Some(object) = new.as_object() else { return };
        for field in self.ruled.of(ty) {
            let rules = rules_of(ty, field, self.view);
            let new = object.get(field.name).unwrap_or(&Value::Null);
            if new.is_null() && rules.clone().next().is_none() {
                continue;
            }
            let old = old.map(|old| &old[field.name]);
            if old.is_some_and(|old| semantically_equal(old, new)) {
                continue;
            }
            let path = path.child(field.name);
            if rule::judge(found, &path, field, (new, old), rules) {
                self.below(found, &path, field, new, old);
            }
        }
    }

    /// Judges the objects in a member. An item of a list is an update of the old item with the same keys.
    fn below(
        &self,
        found: &mut Vec<FieldError>,
        path: &Path<'_>,
        field: &'static Field,
        new: &Value,
        old: Option<&Value>,
    ) {
        let Some(ty) = field.struct_type() else { return };
        match field.shape {
            Shape::One => self.members(found, path, ty, new, old.filter(|old| old.is_object())),
            Shape::List => {
                let is_map = matches!(field.list_type, Some(ListType::Map));
                for (at, item) in list(new).iter().enumerate() {
                    let is_same = |old: &&Value| field.list_keys.iter().all(|key| old[*key] == item[*key]);
                    let old = old.filter(|_| is_map).and_then(|old| list(old).iter().find(is_same));
                    if old.is_none_or(|old| !semantically_equal(old, item)) {
                        self.members(found, &path.index(at), ty, item, old);
                    }
                }
            }
            Shape::Map => {
                for (key, item) in new.as_object().into_iter().flatten() {
                    self.members(found, &path.key(key), ty, item, old.and_then(|old| old.get(key)));
                }
            }
        }
    }
}
