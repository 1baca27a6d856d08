//! The planner: turns a checked tree into a program and evaluates its constant parts.

use super::node::{
    Attribute, CallNode, Fold, Iteration, Node, Qualifier, QualifierKey, Root, SharedFunction,
};
use super::simplify::simplified;
use super::{Program, eval};
use crate::ast::{
    Call, Comprehension, Expr, ExprKind, ListLiteral, Literal, MapEntry, Select, StructLiteral,
};
use crate::check::{CheckedTree, Reference};
use crate::declarations::Declarations;
use crate::error::EvalError;
use crate::library::pattern;
use crate::parse::operator;
use crate::value::{FieldName, Key, List, Map, Text, Val};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Conversions that the planner evaluates if the argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Plans the program of a checked tree. If `is_simplified`, macros with a node of their own get it instead of the general
/// comprehension.
pub(super) fn plan(
    tree: &CheckedTree,
    declarations: &Declarations,
    is_simplified: bool,
) -> Result<Program, EvalError> {
    let mut planner = Planner {
        tree,
        declarations,
        is_simplified,
        scopes: Vec::new(),
        variables: Vec::new(),
        known: BTreeMap::new(),
    };
    let root = planner.node(&tree.ast.root)?;
    Ok(Program { root, variables: planner.variables.into() })
}

struct Planner<'t> {
    tree: &'t CheckedTree,
    declarations: &'t Declarations,
    is_simplified: bool,
    /// Variables of the comprehensions around the node, and their slots.
    scopes: Vec<(Arc<str>, usize)>,
    /// A slot for each variable: the name of a variable of the activation, none for a variable of a comprehension.
    variables: Vec<Option<Arc<str>>>,
    /// The slots of the activation's variables.
    known: BTreeMap<Arc<str>, usize>,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, EvalError> {
        match &expr.kind {
            ExprKind::Error => Err(EvalError::other("the expression has a syntax error")),
            ExprKind::Literal(literal) => Ok(Node::Const(constant(literal))),
            ExprKind::Ident(name) => Ok(self.ident(expr, name)),
            ExprKind::Select(select) => self.select(select),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(list) => self.list(list),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(literal) => self.object(literal),
            ExprKind::Comprehension(comprehension) => self.fold(comprehension),
        }
    }

    #[inline(never)]
    fn select(&mut self, select: &Select) -> Result<Node, EvalError> {
        let mut attribute = self.attribute_of(&select.operand)?;
        attribute.test_only = select.test_only;
        let key = QualifierKey::Field(FieldName::new(select.field.clone()));
        self.qualify(attribute, key, false)
    }

    #[inline(never)]
    fn list(&mut self, list: &ListLiteral) -> Result<Node, EvalError> {
        let mut elements = Vec::with_capacity(list.elements.len());
        for (element, optional) in list.elements.iter().zip(&list.optional) {
            elements.push((self.node(element)?, *optional));
        }
        Ok(folded_list(elements))
    }

    #[inline(never)]
    fn map(&mut self, entries: &[MapEntry]) -> Result<Node, EvalError> {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.node(&entry.key)?;
            planned.push((key, self.node(&entry.value)?, entry.optional));
        }
        folded_map(planned)
    }

    #[inline(never)]
    fn object(&mut self, literal: &StructLiteral) -> Result<Node, EvalError> {
        let mut fields = Vec::with_capacity(literal.fields.len());
        for field in &literal.fields {
            fields.push((field.name.clone(), self.node(&field.value)?, field.optional));
        }
        Ok(Node::Object(literal.type_name.clone(), fields))
    }

    fn ident(&mut self, expr: &Expr, name: &Arc<str>) -> Node {
        if let Reference::TypeName(ty) = self.tree.reference(expr) {
            return Node::Const(Val::Type(Text::Shared(Arc::from(ty.runtime_name()))));
        }
        let local = self.scopes.iter().rev().find(|(known, _)| known == name);
        let slot = match local {
            Some((_, slot)) => *slot,
            None => self.variable_slot(name.trim_start_matches('.')),
        };
        Node::Attribute(Box::new(Attribute {
            root: Root::Slot(slot),
            qualifiers: Vec::new(),
            test_only: false,
        }))
    }

    /// The node as an attribute: itself, or an attribute that starts from the value of the node.
    fn attribute_of(&mut self, expr: &Expr) -> Result<Attribute, EvalError> {
        Ok(as_attribute(self.node(expr)?))
    }

    fn qualify(
        &self,
        mut attribute: Attribute,
        key: QualifierKey,
        optional: bool,
    ) -> Result<Node, EvalError> {
        if attribute.qualifiers.is_empty()
            && let (Root::Slot(slot), QualifierKey::Field(field)) = (&attribute.root, &key)
            && let Some(name) = &self.variables[*slot]
            && self.declarations.lazy_objects.contains(name)
        {
            attribute.root = Root::LazyField(Arc::from(format!("{name}.{}", field.as_str())));
        } else {
            attribute.qualifiers.push(Qualifier { key, optional });
        }
        Ok(Node::Attribute(Box::new(attribute)))
    }

    #[inline(never)]
    fn call(&mut self, expr: &Expr, call: &Call) -> Result<Node, EvalError> {
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.iter().chain(&call.args) {
            args.push(self.node(arg)?);
        }
        self.apply(expr, call, args)
    }

    /// Plans a call whose arguments are planned.
    #[inline(never)]
    fn apply(&self, expr: &Expr, call: &Call, mut args: Vec<Node>) -> Result<Node, EvalError> {
        match (&*call.function, args.len()) {
            (operator::AND, 2) => Ok(Node::And(pair(args))),
            (operator::OR, 2) => Ok(Node::Or(pair(args))),
            (operator::EQUALS, 2) => Ok(Node::Equals(pair(args), false)),
            (operator::NOT_EQUALS, 2) => Ok(Node::Equals(pair(args), true)),
            (operator::NOT_STRICTLY_FALSE, 1) => Ok(Node::NotStrictlyFalse(Box::new(args.remove(0)))),
            (operator::CONDITIONAL, 3) => {
                let no = Box::new(as_attribute(args.remove(2)));
                let yes = Box::new(as_attribute(args.remove(1)));
                let root = Root::Conditional(args.remove(0), yes, no);
                Ok(Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test_only: false })))
            }
            (operator::INDEX | operator::OPT_INDEX | operator::OPT_SELECT, 2) => {
                let optional = &*call.function != operator::INDEX;
                let key = match args.remove(1) {
                    Node::Const(Val::String(text)) => QualifierKey::Field(FieldName::new(Arc::from(&*text))),
                    Node::Const(value) => QualifierKey::Const(value),
                    Node::Attribute(attribute) => QualifierKey::Attribute(*attribute),
                    node => QualifierKey::Node(node),
                };
                let attribute = as_attribute(args.remove(0));
                self.qualify(attribute, key, optional)
            }
            ("or" | "orValue", 2) if self.is_overload(expr, call, "optional_or") => {
                Ok(Node::OptionalOr(pair(args), &*call.function == "orValue"))
            }
            _ => self.function(expr, call, args),
        }
    }

    /// Whether the type checker left one overload of a call, whose id begins with `prefix`.
    fn is_overload(&self, expr: &Expr, call: &Call, prefix: &str) -> bool {
        let Reference::Overloads(found) = self.tree.reference(expr) else { return false };
        let function = self.declarations.functions.get(&call.function);
        let [index] = found[..] else { return false };
        function.and_then(|function| function.overloads.get(index)).is_some_and(|o| o.id.starts_with(prefix))
    }

    /// The test of an ordering operator, if the type checker left only its overload for signed integers.
    fn int_order(&self, call: &Call, overloads: &[usize]) -> Option<fn(Ordering) -> bool> {
        let [index] = *overloads else { return None };
        let overload = self.declarations.functions.get(&call.function)?.overloads.get(index)?;
        match &*overload.id {
            "less_int64" => Some(Ordering::is_lt),
            "less_equals_int64" => Some(Ordering::is_le),
            "greater_int64" => Some(Ordering::is_gt),
            "greater_equals_int64" => Some(Ordering::is_ge),
            _ => None,
        }
    }

    #[inline(never)]
    fn function(&self, expr: &Expr, call: &Call, mut args: Vec<Node>) -> Result<Node, EvalError> {
        let function = self.declarations.functions.get(&call.function).cloned();
        let Some(function) = function else { return Err(EvalError::NoSuchOverload) };
        if self.is_overload(expr, call, "in_list")
            && let Some(node) = in_constant_list(&mut args)
        {
            return Ok(node);
        }
        let Reference::Overloads(overloads) = self.tree.reference(expr) else {
            return Err(EvalError::NoSuchOverload);
        };
        let pattern = args.get(1).and_then(|arg| match arg {
            Node::Const(Val::String(text)) if function.matches_pattern => Some(text.to_string()),
            _ => None,
        });
        let is_unguarded = pattern.is_some();
        if let Some(text) = pattern {
            args[1] = Node::Const(Val::opaque(pattern::Pattern::new(&text)?));
        }
        if let (Some(holds), 2) = (self.int_order(call, overloads), args.len()) {
            return Ok(Node::Order(pair(args), holds));
        }
        let foldable = CONVERSIONS.contains(&&*call.function) && matches!(args[..], [Node::Const(_)]);
        let overloads = overloads.clone();
        let node = Node::Call(Box::new(CallNode {
            function: SharedFunction(function),
            overloads,
            args,
            is_unguarded,
        }));
        if foldable { Ok(Node::Const(eval::constant(&node)?)) } else { Ok(node) }
    }

    /// The slot of a variable of the activation.
    fn variable_slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.known.get(name) {
            return *slot;
        }
        let name: Arc<str> = Arc::from(name);
        let slot = self.add_slot(Some(name.clone()));
        self.known.insert(name, slot);
        slot
    }

    /// The slot of a new variable of a comprehension.
    fn scoped_slot(&mut self, name: &Arc<str>) -> usize {
        let slot = self.add_slot(None);
        self.scopes.push((name.clone(), slot));
        slot
    }

    fn add_slot(&mut self, variable: Option<Arc<str>>) -> usize {
        self.variables.push(variable);
        self.variables.len() - 1
    }

    #[inline(never)]
    fn fold(&mut self, c: &Comprehension) -> Result<Node, EvalError> {
        let range = self.node(&c.range)?;
        let init = self.node(&c.init)?;
        let outside = self.scopes.len();
        let accu = self.scoped_slot(&c.accu);
        let var = self.scoped_slot(&c.var);
        let var2 = c.var2.as_ref().map(|name| self.scoped_slot(name));
        let condition = self.node(&c.condition)?;
        let step = self.node(&c.step)?;
        self.scopes.truncate(outside + 1);
        let result = self.node(&c.result)?;
        self.scopes.truncate(outside);
        let iteration = Iteration { range, var, var2 };
        let fold = Fold { iteration, accu, init, condition, step, result };
        Ok(if self.is_simplified { simplified(fold) } else { Node::Fold(Box::new(fold)) })
    }
}

fn pair(args: Vec<Node>) -> Box<[Node; 2]> {
    Box::new(args.try_into().expect("the call has two arguments"))
}

fn as_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) if !attribute.test_only => *attribute,
        other => Attribute { root: Root::Relative(other), qualifiers: Vec::new(), test_only: false },
    }
}

fn constant(literal: &Literal) -> Val<'static> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(text) => Val::string(text.clone()),
        Literal::Bytes(bytes) => Val::Bytes(bytes.clone()),
    }
}

fn folded_list(elements: Vec<(Node, bool)>) -> Node {
    let constant = |(node, optional): &(Node, bool)| matches!(node, Node::Const(_)) && !optional;
    if !elements.iter().all(constant) {
        return Node::List(elements);
    }
    let values = elements.into_iter().filter_map(|(node, _)| match node {
        Node::Const(value) => Some(value),
        _ => None,
    });
    Node::Const(Val::list(values.collect()))
}

fn folded_map(entries: Vec<(Node, Node, bool)>) -> Result<Node, EvalError> {
    let constant = |(key, value, optional): &(Node, Node, bool)| {
        matches!((key, value), (Node::Const(_), Node::Const(_))) && !optional
    };
    if !entries.iter().all(constant) {
        return Ok(Node::Map(entries));
    }
    let values = entries.into_iter().filter_map(|(key, value, _)| match (key, value) {
        (Node::Const(key), Node::Const(value)) => Some((key, value)),
        _ => None,
    });
    Ok(Node::Const(Val::Map(Map::new(values)?)))
}

/// Membership in a set instead of `in`, if the list is constant and all elements can be keys.
fn in_constant_list(args: &mut Vec<Node>) -> Option<Node> {
    let Node::Const(Val::List(List::Owned(items))) = args.get(1)? else { return None };
    if items.is_empty() {
        return Some(Node::Const(Val::Bool(false)));
    }
    let is_exact = |item: &Val<'static>| !matches!(item, Val::Double(value) if value.fract() != 0.0);
    let keys: Option<BTreeSet<_>> =
        items.iter().map(|item| if is_exact(item) { Key::of(item) } else { None }).collect();
    let keys = keys?;
    Some(Node::InSet(Box::new(args.swap_remove(0)), keys))
}
