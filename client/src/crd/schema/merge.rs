//! Merges schemas of one value: both hold ([`Node::and`]), or one of several holds ([`alternatives`]).

use super::error::{SchemaError, SchemaProblem};
use super::node::{Checks, Node, ValueKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type Merged<T> = Result<T, SchemaError>;

/// CEL rules: a merge concatenates them, while other extensions must be equal.
const RULES: &str = "x-kubernetes-validations";

const FORMAT: &str = "format";

impl Node {
    /// The schema of values that match both schemas. Description and default of `self` take precedence.
    pub(super) fn and(self, other: Self) -> Merged<Self> {
        let is_nullable = match (self.kind, other.kind) {
            (Some(_), Some(_)) => self.is_nullable && other.is_nullable,
            // A schema without a type says nothing about null.
            _ => self.is_nullable || other.is_nullable,
        };
        let mut properties = self.properties;
        for (name, node) in other.properties {
            let merged = match properties.remove(&name) {
                Some(own) => own.and(node).map_err(|error| error.of_field(&name))?,
                None => node,
            };
            properties.insert(name, merged);
        }
        Ok(Self {
            kind: common_kind(self.kind, other.kind)?,
            is_nullable,
            description: self.description.or(other.description),
            value_notes: if self.value_notes.is_empty() { other.value_notes } else { self.value_notes },
            default: self.default.or(other.default),
            properties,
            items: both(self.items, other.items, "[]")?,
            additional: both(self.additional, other.additional, "{}")?,
            is_open: self.is_open || other.is_open,
            extensions: add_extensions(self.extensions, other.extensions)?,
            checks: self.checks.and(other.checks),
        })
    }
}

fn both(a: Option<Box<Node>>, b: Option<Box<Node>>, field: &str) -> Merged<Option<Box<Node>>> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some(Box::new(a.and(*b).map_err(|error| error.of_field(field))?))),
        (a, b) => Ok(a.or(b)),
    }
}

/// The type of values that have both types.
fn common_kind(a: Option<ValueKind>, b: Option<ValueKind>) -> Merged<Option<ValueKind>> {
    use ValueKind::{IntOrString, Integer, Number, String};
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.or(b)) };
    match (a, b) {
        _ if a == b => Ok(Some(a)),
        (Integer, Number) | (Number, Integer) => Ok(Some(Integer)),
        (IntOrString, other @ (Integer | String)) | (other @ (Integer | String), IntOrString) => {
            Ok(Some(other))
        }
        _ => Err(SchemaProblem::Types(a.as_str(), b.as_str()).into()),
    }
}

/// The type of values that have either type.
fn either_kind(a: Option<ValueKind>, b: Option<ValueKind>) -> Merged<Option<ValueKind>> {
    use ValueKind::{IntOrString, Integer, Number, String};
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.or(b)) };
    match (a, b) {
        _ if a == b => Ok(Some(a)),
        (Integer, Number) | (Number, Integer) => Ok(Some(Number)),
        (Integer | IntOrString, String | IntOrString) | (String | IntOrString, Integer | IntOrString) => {
            Ok(Some(IntOrString))
        }
        _ => Err(SchemaProblem::Types(a.as_str(), b.as_str()).into()),
    }
}

fn add_extensions(
    mut own: BTreeMap<String, Value>,
    other: BTreeMap<String, Value>,
) -> Merged<BTreeMap<String, Value>> {
    for (name, value) in other {
        match own.get_mut(&name) {
            None => {
                own.insert(name, value);
            }
            Some(same) if *same == value => {}
            Some(Value::Array(rules)) if name == RULES => {
                rules.extend(value.as_array().into_iter().flatten().cloned());
            }
            Some(_) => return Err(SchemaProblem::Conflict(name).into()),
        }
    }
    Ok(own)
}

impl Checks {
    /// The checks of both.
    fn and(mut self, other: Self) -> Self {
        let mut rest = Self::default();
        for (name, value) in other.keywords {
            match self.keywords.get_mut(&name) {
                None => {
                    self.keywords.insert(name, value);
                }
                Some(same) if *same == value => {}
                Some(Value::Array(names)) if name == "required" => {
                    let more = value.as_array().into_iter().flatten().filter(|value| !names.contains(value));
                    let more: Vec<_> = more.cloned().collect();
                    names.extend(more);
                }
                // A format of numbers does not stay in a schema that has only checks: there it would count as
                // the type, which matches no value.
                Some(_) if name == FORMAT => {}
                Some(_) => {
                    rest.keywords.insert(name, value);
                }
            }
        }
        self.all_of.extend(other.all_of);
        for (own, other, more) in [
            (&mut self.any_of, other.any_of, &mut rest.any_of),
            (&mut self.one_of, other.one_of, &mut rest.one_of),
        ] {
            *if own.is_empty() { own } else { more } = other;
        }
        *if self.not.is_none() { &mut self.not } else { &mut rest.not } = other.not;
        if !rest.is_empty() {
            self.all_of.push(rest);
        }
        self
    }
}

/// The schema of values that match one of `nodes`, or with `is_exclusive` exactly one. It has the fields of
/// all, and in `anyOf` or `oneOf` the checks that distinguish them. A value that matches two in one field
/// each may pass where a field means the same in both.
///
/// # Errors
///
/// Values have different types without a common type in Kubernetes.
pub(super) fn alternatives(mut nodes: Vec<Node>, is_exclusive: bool) -> Merged<Node> {
    for node in &mut nodes {
        describe_only_field(node);
    }
    if nodes.len() < 2 {
        return nodes.pop().ok_or_else(|| SchemaProblem::Never.into());
    }
    if nodes.iter().any(Node::is_any) {
        return Ok(Node::default());
    }
    let (mut node, branches) = union(nodes.iter().collect())?;
    let is_enumeration = node.kind.is_some_and(ValueKind::is_scalar)
        && branches.iter().all(|branch| branch.only_enum().is_some());
    if is_enumeration {
        node.value_notes = nodes.iter().filter_map(value_note).collect();
    } else if !branches.iter().any(Checks::is_empty) {
        *if is_exclusive { &mut node.checks.one_of } else { &mut node.checks.any_of } = branches;
    }
    Ok(node)
}

/// Moves the description of a variant to its field if the variant is an object with that field alone.
fn describe_only_field(node: &mut Node) {
    if node.properties.len() == 1
        && let (Some(field), Some(text)) = (node.properties.values_mut().next(), node.description.take())
    {
        field.description.get_or_insert(text);
    }
}

/// The only value of a variant with its description.
fn value_note(node: &Node) -> Option<(String, String)> {
    match node.checks.only_enum()?.as_slice() {
        [Value::String(value)] => Some((value.clone(), node.description.clone()?)),
        _ => None,
    }
}

/// A node with the structure of all nodes, and the remaining checks of each.
fn union(nodes: Vec<&Node>) -> Merged<(Node, Vec<Checks>)> {
    let first = nodes[0];
    if nodes.iter().all(|node| node.without_texts() == first.without_texts()) {
        return Ok((first.clone(), vec![Checks::default(); nodes.len()]));
    }
    let mut whole = Node { description: None, ..Node::default() };
    let mut branches: Vec<Checks> = nodes.iter().map(|node| node.checks.clone()).collect();
    for node in &nodes {
        whole.kind = either_kind(whole.kind, node.kind)?;
        whole.is_nullable |= node.is_nullable;
        whole.is_open |= node.is_open;
        for (name, value) in &node.extensions {
            if nodes.iter().any(|other| other.extensions.get(name) != Some(value)) {
                return Err(SchemaProblem::Conflict(format!("{name} of the variants of an enum")).into());
            }
        }
    }
    whole.extensions = first.extensions.clone();
    whole.default = first.default.clone().filter(|_| nodes.iter().all(|node| node.default == first.default));
    union_fields(&nodes, &mut whole, &mut branches)?;
    whole.items = union_boxed(
        &nodes,
        |node| node.items.as_deref(),
        "[]",
        |at, checks| {
            branches[at].items = Some(Box::new(checks));
        },
    )?;
    // Checks that differ between maps are dropped.
    whole.additional = union_boxed(&nodes, |node| node.additional.as_deref(), "{}", |_, _| {})?;
    lift_format(&mut whole, &mut branches);
    lift_required(&mut whole, &mut branches);
    lift_enum(&mut whole, &nodes);
    Ok((whole, branches))
}

fn union_fields(nodes: &[&Node], whole: &mut Node, branches: &mut [Checks]) -> Merged<()> {
    let names: BTreeSet<&String> = nodes.iter().flat_map(|node| node.properties.keys()).collect();
    for name in names {
        let holders: Vec<usize> =
            (0..nodes.len()).filter(|at| nodes[*at].properties.contains_key(name)).collect();
        let fields: Vec<&Node> = holders.iter().map(|at| &nodes[*at].properties[name]).collect();
        // Checks without a type belong to a field that is described elsewhere: they apply to their own branch
        // only.
        if fields.iter().any(|field| field.kind.is_none() && !field.checks.is_empty()) {
            for at in holders {
                let checks = nodes[at].properties[name].clone().into_checks();
                branches[at].properties.insert(name.clone(), checks);
            }
            whole.properties.insert(name.clone(), Node::default());
            continue;
        }
        let (mut field, checks) = union(fields).map_err(|error| error.of_field(name))?;
        field.description = field
            .description
            .or_else(|| holders.iter().find_map(|at| nodes[*at].properties[name].description.clone()));
        whole.properties.insert(name.clone(), field);
        for (at, checks) in holders.into_iter().zip(checks).filter(|(_, checks)| !checks.is_empty()) {
            branches[at].properties.insert(name.clone(), checks);
        }
    }
    Ok(())
}

/// The union of a part that some nodes have; `keep` receives the remaining checks of each.
fn union_boxed<'n>(
    nodes: &[&'n Node],
    part: impl Fn(&'n Node) -> Option<&'n Node>,
    field: &str,
    mut keep: impl FnMut(usize, Checks),
) -> Merged<Option<Box<Node>>> {
    let holders: Vec<(usize, &Node)> =
        nodes.iter().enumerate().filter_map(|(at, node)| Some((at, part(node)?))).collect();
    if holders.is_empty() {
        return Ok(None);
    }
    let parts = holders.iter().map(|(_, node)| *node).collect();
    let (node, checks) = union(parts).map_err(|error| error.of_field(field))?;
    for ((at, _), checks) in holders.into_iter().zip(checks).filter(|(_, checks)| !checks.is_empty()) {
        keep(at, checks);
    }
    Ok(Some(Box::new(node)))
}

/// Moves a format that all branches share to the whole. Other formats stay in their branches only for
/// strings: an API server treats the format of a schema without a type as the type and refuses every value
/// that is not a string.
fn lift_format(whole: &mut Node, branches: &mut [Checks]) {
    let format = branches.first().and_then(|branch| branch.keywords.get(FORMAT)).cloned();
    let is_common = branches.iter().all(|branch| branch.keywords.get(FORMAT) == format.as_ref());
    if is_common || !matches!(whole.kind, None | Some(ValueKind::String)) {
        for branch in branches {
            branch.keywords.remove(FORMAT);
        }
    }
    if let Some(format) = format.filter(|_| is_common) {
        whole.checks.keywords.insert(FORMAT.to_owned(), format);
    }
}

/// Moves fields that every branch requires to the whole.
fn lift_required(whole: &mut Node, branches: &mut [Checks]) {
    let Some(first) = branches.first() else { return };
    let is_common = |name: &Value| branches.iter().all(|branch| branch.required().contains(name));
    let common: Vec<Value> = first.required().into_iter().filter(is_common).collect();
    for branch in branches {
        let own = branch.required().into_iter().filter(|name| !common.contains(name)).collect();
        branch.set_required(own);
    }
    whole.checks.set_required(common);
}

/// Adds the union of all branches' enumerations to the whole, for readers of the schema.
fn lift_enum(whole: &mut Node, nodes: &[&Node]) {
    let mut values: Vec<Value> = Vec::new();
    for node in nodes {
        let Some(own) = node.checks.only_enum() else { return };
        values.extend(own.iter().filter(|value| !values.contains(value)).cloned().collect::<Vec<_>>());
    }
    whole.checks.keywords.insert("enum".to_owned(), values.into());
}
