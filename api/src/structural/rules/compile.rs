//! Compiles the rules of a schema to programs, with Kubernetes' error texts and cost estimates.

use super::shapes::Shapes;
use super::types::NodeTypes;
use crate::expression::base;
use crate::structural::field_path;
use crate::structural::node::NodeId;
use crate::structural::rule::Rule;
use crate::structural::tree::{Schema, Tree};
use kstore_cel::{Checked, Env, Program, Shape, Type};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The programs of all rules of a tree.
#[derive(Debug, Default)]
pub(in crate::structural) struct CompiledRules {
    pub(super) nodes: BTreeMap<NodeId, CompiledNode>,
    /// Whether the rules were costly on any object so far; [`Tree::has_costly_rules`] reads it.
    pub(super) costly: AtomicBool,
}

/// The programs of the rules of one node.
#[derive(Debug)]
pub(super) struct CompiledNode {
    /// The shape of the node's values; none if CEL has no type for the node, which makes every rule fail.
    pub(super) shape: Option<Shape>,
    /// The compiled rules, in the order of the schema.
    pub(super) rules: Vec<CompiledRule>,
}

/// One compiled rule.
#[derive(Debug, Default)]
pub(crate) struct CompiledRule {
    /// The program; none if the rule is empty or does not compile.
    pub(super) program: Option<Program>,
    /// The compile error of the rule, in Kubernetes' words.
    pub(crate) fault: Option<String>,
    /// Whether the rule mentions `oldSelf`, which makes it a transition rule.
    pub(crate) uses_old_self: bool,
    /// The estimated maximum cost of one evaluation.
    pub(crate) cost: u64,
    /// The program of the message expression; none if there is no expression or it does not compile.
    pub(super) message: Option<Program>,
    /// The compile error of the message expression, in Kubernetes' words.
    pub(crate) message_fault: Option<String>,
    /// The estimated maximum cost of one evaluation of the message expression, if it has a program.
    pub(crate) message_cost: Option<u64>,
    /// The path of the field that errors of the rule name, relative to the node; empty for the node itself.
    pub(super) field: Box<str>,
}

impl CompiledRules {
    /// Compiles the rules of all nodes.
    pub(super) fn of(tree: &Arc<Tree>) -> Self {
        let mut shapes = Shapes::new(tree);
        let with_rules = tree.nodes().filter(|(_, node)| !node.rules.is_empty());
        let nodes = with_rules.map(|(id, _)| {
            (id, CompiledNode { shape: shapes.of(id), rules: compile_node(tree, id).unwrap_or_default() })
        });
        Self { nodes: nodes.collect(), costly: AtomicBool::new(false) }
    }
}

/// Compiles the rules of one node; none if CEL has no type for the node.
pub(crate) fn compile_node(tree: &Arc<Tree>, node: NodeId) -> Option<Vec<CompiledRule>> {
    let types = NodeTypes::new(tree.clone(), node);
    let self_type = types.self_type()?;
    let mut environments = Environments::new(&types, self_type);
    let schema = tree.schema(node);
    Some(schema.node().rules.iter().map(|rule| compile(schema, rule, &types, &mut environments)).collect())
}

/// The CEL environments of a node's rules: with `oldSelf` as a plain value, and as an optional value.
struct Environments {
    plain: Env,
    /// Made for the first rule with `optionalOldSelf`.
    optional: Option<Env>,
    self_type: Type,
}

impl Environments {
    fn new(types: &NodeTypes, self_type: Type) -> Self {
        let builder = base::environment().extend().types(Arc::new(types.clone()));
        let plain =
            builder.variable("self", self_type.clone()).variable("oldSelf", self_type.clone()).build();
        Self { plain, optional: None, self_type }
    }

    /// The environment of a rule; `oldSelf` is an optional value if the rule sets `optionalOldSelf`.
    fn of(&mut self, rule: &Rule) -> &Env {
        if !rule.optional_old_self {
            return &self.plain;
        }
        let make = || self.plain.extend().variable("oldSelf", Type::optional(self.self_type.clone())).build();
        self.optional.get_or_insert_with(make)
    }
}

fn compile(
    schema: Schema<'_>,
    rule: &Rule,
    types: &NodeTypes,
    environments: &mut Environments,
) -> CompiledRule {
    let mut out = CompiledRule::default();
    if rule.rule.trim().is_empty() {
        return out;
    }
    let env = environments.of(rule);
    match expression(env, &rule.rule, &Type::Bool) {
        Err(Fault::Compile(errors)) => out.fault = Some(format!("compilation failed: {errors}")),
        Err(Fault::Type) => out.fault = Some("cel expression must evaluate to a bool".to_owned()),
        Err(Fault::Program(error)) => out.fault = Some(format!("program instantiation failed: {error}")),
        Ok((checked, program)) => {
            out.uses_old_self = checked.references("oldSelf");
            out.cost = checked.estimate(types).max;
            out.program = Some(program);
        }
    }
    if out.fault.is_some() {
        return out;
    }
    if let Some(message) = &rule.message_expression {
        match expression(env, message, &Type::String) {
            Err(Fault::Compile(errors)) => {
                out.message_fault = Some(format!("messageExpression compilation failed: {errors}"));
            }
            Err(Fault::Type) => {
                out.message_fault = Some("messageExpression must evaluate to a string".to_owned());
            }
            Err(Fault::Program(error)) => {
                out.message_fault = Some(format!("messageExpression instantiation failed: {error}"));
            }
            Ok((checked, program)) => {
                out.message_cost = Some(checked.estimate(types).max);
                out.message = Some(program);
            }
        }
    }
    out.field = rule.field_path.as_deref().and_then(|path| field(schema, path)).unwrap_or_default().into();
    out
}

/// The stage at which an expression was refused.
enum Fault {
    Compile(String),
    /// The result has another type than wanted.
    Type,
    Program(String),
}

/// Compiles an expression whose result must have the wanted type.
fn expression(env: &Env, text: &str, wanted: &Type) -> Result<(Checked, Program), Fault> {
    let checked = env.compile(text).map_err(|errors| Fault::Compile(errors.to_string()))?;
    if checked.result_type() != wanted {
        return Err(Fault::Type);
    }
    let program = checked.program().map_err(|error| Fault::Program(error.to_string()))?;
    Ok((checked, program))
}

/// The `fieldPath` of a rule as errors print it; none if the schema has no such field.
fn field(schema: Schema<'_>, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut current = Some(schema);
    let walked = field_path::walk(path, field_path::ArrayNotation::Allowed, |name| {
        let Some(schema) = current else { return Err(String::new()) };
        if schema.node().properties.is_empty() {
            out.push_str(&format!("[{name}]"));
            current = schema.values();
        } else {
            let dot = if out.is_empty() { "" } else { "." };
            out.push_str(&format!("{dot}{name}"));
            current = schema.property(name);
        }
        if current.is_some() { Ok(()) } else { Err(String::new()) }
    });
    walked.ok().map(|()| out)
}
