//! The cost estimator: computes an interval of costs for a checked tree.
//!
//! The size of a value comes from a literal, from the estimate of the call that makes it, from the [`SizeProvider`], or from its
//! type, in this order.

use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::check::{CheckedTree, Reference};
use crate::cost::{
    ArgEstimate, CallEstimate, CostEstimate, EstimateCall, LIST, MAP, OBJECT, SizeEstimate, SizeProvider,
};
use crate::declarations::Declarations;
use crate::parse::{ACCUMULATOR, operator};
use crate::types::Type;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The interval of costs of evaluating a tree.
pub(crate) fn estimate(
    tree: &CheckedTree,
    declarations: &Declarations,
    sizes: &dyn SizeProvider,
) -> CostEstimate {
    let mut estimator = CostEstimator {
        tree,
        declarations,
        sizes,
        paths: BTreeMap::new(),
        known: BTreeMap::new(),
        entries: BTreeMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&tree.ast.root)
}

/// The sizes of the keys or indices, and of the values or items, of a container.
#[derive(Debug, Clone, Copy)]
struct EntrySizes {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySizes {
    fn union(self, other: Self) -> Self {
        let (key, value) = (self.key.union(other.key), self.value.union(other.value));
        Self { is_list: self.is_list, key, value }
    }
}

/// A variable of a comprehension.
struct LocalVariable {
    name: Arc<str>,
    path: Vec<Arc<str>>,
    size: Option<SizeEstimate>,
    entries: Option<EntrySizes>,
}

struct CostEstimator<'t> {
    tree: &'t CheckedTree,
    declarations: &'t Declarations,
    sizes: &'t dyn SizeProvider,
    paths: BTreeMap<ExprId, Vec<Arc<str>>>,
    known: BTreeMap<ExprId, SizeEstimate>,
    entries: BTreeMap<ExprId, EntrySizes>,
    locals: Vec<LocalVariable>,
}

const FREE: CostEstimate = CostEstimate::fixed(0);
const ONE: CostEstimate = CostEstimate::fixed(1);

impl CostEstimator<'_> {
    fn cost(&mut self, expr: &Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Error | ExprKind::Literal(_) => FREE,
            ExprKind::Ident(name) => {
                let path = self.local(name).map(|local| local.path.clone());
                let path = path.unwrap_or_else(|| vec![Arc::from(name.trim_start_matches('.'))]);
                self.paths.insert(expr.id, path);
                ONE
            }
            ExprKind::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test_only {
                    return operand;
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expr.id, path);
                match self.tree.ty(&select.operand) {
                    Type::Map(..) | Type::Object(_) | Type::Param(_) => operand.plus(ONE),
                    _ => operand,
                }
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(list) => {
                let cost = self.sum(list.elements.iter());
                let value = self.sizes_of(list.elements.iter());
                let sizes = EntrySizes { is_list: true, key: SizeEstimate::fixed(1), value };
                self.entries.insert(expr.id, sizes);
                cost.plus(CostEstimate::fixed(LIST))
            }
            ExprKind::Map(entries) => {
                let cost = self.sum(entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
                let key = self.sizes_of(entries.iter().map(|entry| &entry.key));
                let value = self.sizes_of(entries.iter().map(|entry| &entry.value));
                self.entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                cost.plus(CostEstimate::fixed(MAP))
            }
            ExprKind::Struct(literal) => {
                let cost = self.sum(literal.fields.iter().map(|field| &field.value));
                cost.plus(CostEstimate::fixed(OBJECT))
            }
            ExprKind::Comprehension(comprehension) if is_binding(comprehension) => {
                self.binding(expr, comprehension)
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn sum<'x>(&mut self, parts: impl Iterator<Item = &'x Expr>) -> CostEstimate {
        parts.fold(FREE, |sum, part| sum.plus(self.cost(part)))
    }

    /// The smallest interval around the sizes of all operands; 0 if there are none.
    fn sizes_of<'x>(&mut self, parts: impl Iterator<Item = &'x Expr>) -> SizeEstimate {
        let sizes: Vec<_> = parts.map(|part| self.size_or_unknown(part)).collect();
        sizes.into_iter().reduce(SizeEstimate::union).unwrap_or(SizeEstimate::fixed(0))
    }

    fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<Arc<str>> {
        if let Some(local) = expr.ident().and_then(|name| self.local(name)) {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.known.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List(list) => Some(list.elements.len()),
            ExprKind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(SizeEstimate::fixed(size as u64));
        }
        let ty = self.tree.ty(expr);
        if let Some(size) = self.sizes.size(&self.path(expr), ty) {
            self.known.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(ty) {
            return Some(SizeEstimate::fixed(1));
        }
        expr.ident().and_then(|name| self.local(name)).and_then(|local| local.size)
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        let local = || expr.ident().and_then(|name| self.local(name)).and_then(|local| local.entries);
        self.entries.get(&expr.id).copied().or_else(local)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.known.insert(expr.id, size);
        }
    }

    fn set_entries(&mut self, expr: &Expr, sizes: Option<EntrySizes>) {
        if let Some(sizes) = sizes {
            self.entries.insert(expr.id, sizes);
        }
    }

    fn argument(&mut self, expr: &Expr) -> ArgEstimate {
        let mut path = self.path(expr);
        if path.first().is_some_and(|root| &**root == ACCUMULATOR) {
            path.clear();
        }
        let int_literal = match expr.literal() {
            Some(Literal::Int(value)) => Some(*value),
            _ => None,
        };
        ArgEstimate {
            ty: self.tree.ty(expr).clone(),
            path,
            known_size: self.size(expr),
            int_literal,
            is_literal: expr.literal().is_some(),
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> CostEstimate {
        if &*call.function == "dyn" && call.args.len() == 1 {
            let cost = self.cost(&call.args[0]);
            let size = self.size(&call.args[0]);
            self.set_size(expr, size);
            self.set_entries(expr, self.entry_sizes(&call.args[0]));
            return cost.plus(ONE);
        }
        let costs: Vec<_> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let args: Vec<_> = call.args.iter().map(|arg| self.argument(arg)).collect();
        let Reference::Overloads(overloads) = self.tree.reference(expr).clone() else { return FREE };
        let target_cost = call.target.as_ref().map_or(FREE, |target| self.cost(target));
        let target = call.target.as_ref().map(|target| self.argument(target));
        let all_args = costs.iter().fold(FREE, |sum, cost| sum.plus(*cost));
        match &*call.function {
            operator::AND | operator::OR => {
                return CostEstimate { min: costs[0].min, max: costs[0].plus(costs[1]).max };
            }
            operator::CONDITIONAL => {
                self.set_size(expr, Some(args[1].size().union(args[2].size())));
                let branches = (self.entry_sizes(&call.args[1]), self.entry_sizes(&call.args[2]));
                if let (Some(yes), Some(no)) = branches {
                    self.set_entries(expr, Some(yes.union(no)));
                }
                return costs[0].plus(costs[1].union(costs[2]));
            }
            _ => {}
        }
        let mut own: Option<CostEstimate> = None;
        let mut result = None;
        for overload in Self::overload_ids(self.declarations, call, &overloads) {
            let seen =
                EstimateCall { overload: &overload, target: target.as_ref(), args: &args, sizes: self.sizes };
            let estimate = self.one_call(call, &seen);
            own = Some(own.map_or(estimate.cost, |known| known.union(estimate.cost)));
            result = match (result, estimate.result) {
                (Some(known), Some(size)) => Some(SizeEstimate::union(known, size)),
                (known, size) => known.or(size),
            };
            result = self.containers(expr, call, &overload, result);
        }
        if result.is_none() {
            result = self.size(expr);
        }
        self.set_size(expr, result);
        target_cost.plus(all_args).plus(own.unwrap_or(ONE))
    }

    fn overload_ids(declarations: &Declarations, call: &Call, found: &[usize]) -> Vec<Arc<str>> {
        let function = declarations.functions.get(&call.function);
        let all = function.map(|function| &function.overloads[..]).unwrap_or_default();
        found.iter().filter_map(|index| all.get(*index)).map(|overload| overload.id.clone()).collect()
    }

    /// The estimate of one overload without its arguments.
    fn one_call(&self, call: &Call, seen: &EstimateCall<'_>) -> CallEstimate {
        let function = self.declarations.functions.get(&call.function);
        let overload = function.and_then(|all| all.overloads.iter().find(|one| &*one.id == seen.overload));
        let by_function = function.and_then(|function| function.cost.as_ref()?.estimate(seen));
        let by_overload = || overload.and_then(|overload| overload.cost.as_ref()?.estimate(seen));
        by_function.or_else(by_overload).unwrap_or(CallEstimate::of(ONE))
    }

    /// The sizes of elements that operators read from containers or put into them.
    fn containers(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        result: Option<SizeEstimate>,
    ) -> Option<SizeEstimate> {
        let part = match overload {
            "index_list" => "@items",
            "index_map" => "@values",
            "add_list" | "add_string" | "add_bytes" => {
                let sides = (self.entry_sizes(&call.args[0]), self.entry_sizes(&call.args[1]));
                if let (Some(left), Some(right)) = sides {
                    self.set_entries(expr, Some(left.union(right)));
                }
                return result;
            }
            _ => return result,
        };
        let mut path = self.path(&call.args[0]);
        path.push(Arc::from(part));
        self.paths.insert(expr.id, path);
        self.entry_sizes(&call.args[0]).map(|sizes| sizes.value).or_else(|| self.size(expr))
    }

    fn push(&mut self, name: &Arc<str>, range: &Expr, part: &str, size: Option<SizeEstimate>) {
        let mut path = self.path(range);
        path.push(Arc::from(part));
        self.locals.push(LocalVariable { name: name.clone(), path, size, entries: None });
    }

    /// Declares the one or two variables that iterate over a range.
    fn push_iteration(&mut self, c: &Comprehension) {
        let sizes = self.entry_sizes(&c.range);
        let is_list =
            sizes.map_or_else(|| matches!(self.tree.ty(&c.range), Type::List(_)), |sizes| sizes.is_list);
        let (key, value) = (sizes.map(|sizes| sizes.key), sizes.map(|sizes| sizes.value));
        match &c.var2 {
            Some(var2) => {
                self.push(&c.var, &c.range, if is_list { "@indices" } else { "@keys" }, key);
                self.push(var2, &c.range, if is_list { "@items" } else { "@values" }, value);
            }
            None if is_list => self.push(&c.var, &c.range, "@items", value),
            None => self.push(&c.var, &c.range, "@keys", key),
        }
    }

    fn push_accumulator(&mut self, c: &Comprehension) {
        let (path, size) = (self.path(&c.init), self.size(&c.init));
        let entries = self.entry_sizes(&c.init);
        self.locals.push(LocalVariable { name: c.accu.clone(), path, size, entries });
    }

    fn comprehension(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let before = self.cost(&c.range).plus(self.cost(&c.init));
        let outside = self.locals.len();
        self.push_accumulator(c);
        self.push_iteration(c);
        let step = self.cost(&c.condition).plus(self.cost(&c.step));
        let step_entries = self.entry_sizes(&c.step);
        self.locals.truncate(outside + 1);
        let result = self.cost(&c.result);
        self.locals.truncate(outside);
        let count = self.size_or_unknown(&c.range);
        match &c.init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&c.init);
                self.set_size(expr, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(expr, Some(count));
                self.set_entries(expr, step_entries);
            }
            _ => {}
        }
        before.plus(result).plus(count.times_cost(step))
    }

    fn binding(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let before = self.cost(&c.range).plus(self.cost(&c.init));
        self.push_accumulator(c);
        let result = self.cost(&c.result);
        let (size, entries) = (self.size(&c.result), self.entry_sizes(&c.result));
        self.locals.pop();
        self.set_size(expr, size);
        self.set_entries(expr, entries);
        before.plus(result)
    }
}

/// Whether a comprehension only binds a value to a name, as `cel.bind` does: its loop never runs.
fn is_binding(c: &Comprehension) -> bool {
    let empty = matches!(&c.range.kind, ExprKind::List(list) if list.elements.is_empty());
    empty && c.condition.literal() == Some(&Literal::Bool(false)) && &*c.accu != ACCUMULATOR
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.unwrapped().is_some_and(is_scalar),
    }
}
