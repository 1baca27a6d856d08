//! The planner: from a checked tree to a program, with constant parts evaluated.

use super::eval;
use super::node::{Attribute, CallNode, Fold, Node, Qualifier, QualifierKey, Quantifier, Root, Shared};
use crate::ast::{
    Call, Comprehension, Expr, ExprKind, ListLiteral, Literal, MapEntry, Select, StructLiteral,
};
use crate::check::{Reference, Tree};
use crate::cost::LIST;
use crate::env::Declarations;
use crate::error::EvalError;
use crate::library::pattern;
use crate::parse::operator;
use crate::value::{Key, List, Map, Text, Val};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Conversions that are evaluated beforehand if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// The program of a tree, and how many variables of loops it has.
pub(super) fn plan(tree: &Tree, declarations: &Declarations) -> Result<(Node, usize), EvalError> {
    let mut planner = Planner { tree, declarations, scopes: Vec::new(), slots: 0 };
    let root = planner.node(&tree.ast.root)?;
    Ok((root, planner.slots))
}

struct Planner<'t> {
    tree: &'t Tree,
    declarations: &'t Declarations,
    scopes: Vec<(Arc<str>, usize)>,
    slots: usize,
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
        let key = Val::string(select.field.clone());
        self.qualify(attribute, QualifierKey::Const(key), false)
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

    fn ident(&self, expr: &Expr, name: &Arc<str>) -> Node {
        if let Reference::TypeName(ty) = self.tree.reference(expr) {
            return Node::Const(Val::Type(Text::Shared(Arc::from(ty.runtime_name()))));
        }
        let local = self.scopes.iter().rev().find(|(known, _)| known == name);
        let root = match local {
            Some((_, slot)) => Root::Slot(*slot),
            None => Root::Variable(Arc::from(name.trim_start_matches('.'))),
        };
        Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test_only: false }))
    }

    /// The attribute that a node is, or one that starts from the node's value.
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
            && let (Root::Variable(name), QualifierKey::Const(Val::String(field))) = (&attribute.root, &key)
            && self.declarations.lazy_objects.contains(name)
        {
            attribute.root = Root::LazyField(Arc::from(format!("{name}.{}", &**field)));
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

    /// The node of a call whose arguments are planned.
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

    /// Whether a call has one overload, and its identity begins so.
    fn is_overload(&self, expr: &Expr, call: &Call, prefix: &str) -> bool {
        let Reference::Overloads(found) = self.tree.reference(expr) else { return false };
        let function = self.declarations.functions.get(&call.function);
        let [index] = found[..] else { return false };
        function.and_then(|function| function.overloads.get(index)).is_some_and(|o| o.id.starts_with(prefix))
    }

    /// What an order of whole numbers asks of a comparison, if the check left no other overload.
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
        let node =
            Node::Call(Box::new(CallNode { function: Shared(function), overloads, args, is_unguarded }));
        if foldable { Ok(Node::Const(eval::constant(&node)?)) } else { Ok(node) }
    }

    fn slot(&mut self, name: &Arc<str>) -> usize {
        self.slots += 1;
        self.scopes.push((name.clone(), self.slots - 1));
        self.slots - 1
    }

    #[inline(never)]
    fn fold(&mut self, c: &Comprehension) -> Result<Node, EvalError> {
        let range = self.node(&c.range)?;
        let init = self.node(&c.init)?;
        let outside = self.scopes.len();
        let accu = self.slot(&c.accu);
        let var = self.slot(&c.var);
        let var2 = c.var2.as_ref().map(|name| self.slot(name));
        let condition = self.node(&c.condition)?;
        let step = self.node(&c.step)?;
        let step = collecting(step, accu, &init);
        self.scopes.truncate(outside + 1);
        let result = self.node(&c.result)?;
        self.scopes.truncate(outside);
        Ok(quantified(Fold { range, var, var2, accu, init, condition, step, result }))
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

/// A look into a set, if the list is constant and its elements can be keys.
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

/// Whether a node is the accumulator alone.
fn is_slot(node: &Node, slot: usize) -> bool {
    matches!(node, Node::Attribute(attribute)
        if matches!(attribute.root, Root::Slot(known) if known == slot) && attribute.qualifiers.is_empty())
}

/// The loop, as a quantifier if it is exactly what `all` and `exists` stand for.
fn quantified(mut fold: Fold) -> Node {
    let accu = fold.accu;
    let (decisive, terms) = match (&fold.init, &mut fold.step) {
        (Node::Const(Val::Bool(true)), Node::And(terms)) => (false, terms),
        (Node::Const(Val::Bool(false)), Node::Or(terms)) => (true, terms),
        _ => return Node::Fold(Box::new(fold)),
    };
    let goes_on = match &fold.condition {
        Node::NotStrictlyFalse(inner) => match &**inner {
            Node::Call(call) if decisive => {
                first_overload(call) == Some("logical_not")
                    && call.args.first().is_some_and(|arg| is_slot(arg, accu))
            }
            inner => !decisive && is_slot(inner, accu),
        },
        _ => false,
    };
    if !goes_on || !is_slot(&terms[0], accu) || !is_slot(&fold.result, accu) {
        return Node::Fold(Box::new(fold));
    }
    let body = std::mem::replace(&mut terms[1], Node::Const(Val::Null));
    let Fold { range, var, var2, .. } = fold;
    Node::Quantifier(Box::new(Quantifier { range, var, var2, body, decisive }))
}

/// A step that adds to the accumulator in place, if that is what the step does.
fn collecting(step: Node, accu: usize, init: &Node) -> Node {
    let empty_list = matches!(init, Node::Const(Val::List(list)) if list.is_empty());
    let empty_map = matches!(init, Node::Const(Val::Map(map)) if map.is_empty());
    match step {
        Node::Call(call) if empty_list && is_append(&call, accu) => append(*call, accu),
        Node::Call(mut call) if empty_map && is_insert(&call, accu) => {
            call.args.remove(0);
            Node::Insert(accu, call.args)
        }
        Node::Attribute(mut attribute) => {
            if let Root::Conditional(_, yes, _) = &mut attribute.root
                && yes.qualifiers.is_empty()
                && let Root::Relative(node) = &mut yes.root
            {
                let inner = std::mem::replace(node, Node::Const(Val::Null));
                *node = collecting(inner, accu, init);
            }
            Node::Attribute(attribute)
        }
        other => other,
    }
}

fn first_overload(call: &CallNode) -> Option<&str> {
    match call.overloads[..] {
        [index] => call.function.0.overloads.get(index).map(|overload| &*overload.id),
        _ => None,
    }
}

fn is_append(call: &CallNode, accu: usize) -> bool {
    let single = match call.args.get(1) {
        Some(Node::List(items)) => items.len() == 1 && !items[0].1,
        Some(Node::Const(Val::List(list))) => list.len() == 1,
        _ => false,
    };
    single && is_slot(&call.args[0], accu) && first_overload(call) == Some("add_list")
}

fn append(mut call: CallNode, accu: usize) -> Node {
    match call.args.pop() {
        Some(Node::List(mut items)) => {
            Node::Append(accu, Box::new(items.pop().expect("the list has an element").0), LIST)
        }
        Some(Node::Const(Val::List(list))) => {
            let item = list.get(0).unwrap_or(Val::Null);
            Node::Append(accu, Box::new(Node::Const(item)), 0)
        }
        _ => Node::Const(Val::Null),
    }
}

fn is_insert(call: &CallNode, accu: usize) -> bool {
    let inserts = first_overload(call).is_some_and(|id| id.starts_with("@mapInsert"));
    inserts && call.args.first().is_some_and(|node| is_slot(node, accu))
}
