//! From the rules of a schema to programs, with the texts and estimates of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kstore_cel::{Checked, Env, Program, Shape, Type};

use super::shapes::Shapes;
use super::types::NodeTypes;
use crate::expression::base;
use crate::structural::field_path;
use crate::structural::node::NodeId;
use crate::structural::rule::Rule;
use crate::structural::tree::{Schema, Tree};

/// The programs of all rules of a tree.
#[derive(Debug, Default)]
pub(in crate::structural) struct CompiledRules {
    pub(super) nodes: BTreeMap<NodeId, CompiledNode>,
    /// See [`Tree::has_costly_rules`].
    pub(super) costly: AtomicBool,
}

/// The programs of the rules of one node.
#[derive(Debug)]
pub(super) struct CompiledNode {
    /// How values of the node present themselves; none if expressions cannot see them, which makes every rule fail.
    pub(super) shape: Option<Shape>,
    /// In the order of the schema.
    pub(super) rules: Vec<Compiled>,
}

/// One compiled rule.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// The program; none if the rule is empty, or if it is wrong.
    pub(super) program: Option<Program>,
    /// What is wrong with the rule, in Kubernetes' words.
    pub(crate) fault: Option<String>,
    /// Whether the rule mentions `oldSelf`.
    pub(crate) uses_old_self: bool,
    /// The largest cost of one evaluation.
    pub(crate) cost: u64,
    /// The program of the message.
    pub(super) message: Option<Program>,
    /// What is wrong with the expression of the message, likewise.
    pub(crate) message_fault: Option<String>,
    /// The largest cost of one evaluation of the message, if it has a program.
    pub(crate) message_cost: Option<u64>,
    /// The path of the field that a broken rule is reported at, from the node; empty for the node itself.
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

/// Compiles the rules of one node; none if expressions do not see the node.
pub(crate) fn compile_node(tree: &Arc<Tree>, node: NodeId) -> Option<Vec<Compiled>> {
    let types = NodeTypes::new(tree.clone(), node);
    let self_type = types.self_type()?;
    let mut environments = Environments::new(&types, self_type);
    let schema = tree.schema(node);
    Some(schema.node().rules.iter().map(|rule| compile(schema, rule, &types, &mut environments)).collect())
}

/// The two environments of a node's rules, each made when a rule needs it.
struct Environments {
    plain: Env,
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

    /// The environment of a rule; `oldSelf` is an optional value if the rule says so.
    fn of(&mut self, rule: &Rule) -> &Env {
        if !rule.optional_old_self {
            return &self.plain;
        }
        let make = || self.plain.extend().variable("oldSelf", Type::optional(self.self_type.clone())).build();
        self.optional.get_or_insert_with(make)
    }
}

fn compile(schema: Schema<'_>, rule: &Rule, types: &NodeTypes, environments: &mut Environments) -> Compiled {
    let mut out = Compiled::default();
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

enum Fault {
    Compile(String),
    Type,
    Program(String),
}

fn expression(env: &Env, text: &str, wanted: &Type) -> Result<(Checked, Program), Fault> {
    let checked = env.compile(text).map_err(|errors| Fault::Compile(errors.to_string()))?;
    if checked.result_type() != wanted {
        return Err(Fault::Type);
    }
    let program = checked.program().map_err(|error| Fault::Program(error.to_string()))?;
    Ok((checked, program))
}

/// The `fieldPath` of a rule as errors print it; none if it leads to no field.
fn field(schema: Schema<'_>, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut at = Some(schema);
    let walked = field_path::walk(path, field_path::ArrayNotation::Allowed, |name| {
        let Some(schema) = at else { return Err(String::new()) };
        if schema.node().properties.is_empty() {
            out.push_str(&format!("[{name}]"));
            at = schema.values();
        } else {
            let dot = if out.is_empty() { "" } else { "." };
            out.push_str(&format!("{dot}{name}"));
            at = schema.property(name);
        }
        if at.is_some() { Ok(()) } else { Err(String::new()) }
    });
    walked.ok().map(|()| out)
}
