//! The evaluator: walks the nodes of a program and counts the cost of each.

use super::attribute::Selected;
use super::node::{CallNode, Node};
use crate::cost::{self, ActualCall};
use crate::declarations::Overload;
use crate::error::EvalError;
use crate::library::pattern::Pattern;
use crate::limits::KEPT_PATTERNS;
use crate::types::{OPTIONAL, Type};
use crate::value::{Key, Map, Object, Shape, Val, equal};
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Looks up a variable of the activation by name.
type Lookup<'a, 'e> = &'e dyn Fn(&str) -> Option<Result<Val<'a>, EvalError>>;

/// Evaluates a program. Returns the value and the cost.
pub(super) fn run<'a>(
    root: &'a Node,
    variables: &'a [Option<Arc<str>>],
    lookup: Lookup<'a, '_>,
    limit: u64,
    interrupted: &dyn Fn() -> bool,
) -> (Result<Val<'a>, EvalError>, u64) {
    let (mut few, mut many);
    let slots = if variables.len() <= STACK_SLOTS {
        few = [const { Slot::Empty }; STACK_SLOTS];
        &mut few[..variables.len()]
    } else {
        many = vec![Slot::Empty; variables.len()];
        &mut many[..]
    };
    let patterns = Vec::new();
    let mut evaluation =
        Evaluation { lookup, variables, slots, spent: 0, limit, interrupted, iterations: 0, patterns };
    let value = evaluation.eval(root);
    (value, evaluation.spent)
}

/// The value of a call whose arguments are constants.
pub(super) fn constant(node: &Node) -> Result<Val<'static>, EvalError> {
    let Node::Call(call) = node else { return Err(EvalError::NoSuchOverload) };
    let args: Vec<Val<'static>> = call
        .args
        .iter()
        .filter_map(|arg| if let Node::Const(value) = arg { Some(value.clone()) } else { None })
        .collect();
    let overload = choose(call, &args).ok_or(EvalError::NoSuchOverload)?;
    (overload.implementation)(&args)
}

/// Slots that an evaluation has on the stack; programs with more variables allocate.
const STACK_SLOTS: usize = 4;

/// The storage of a variable.
#[derive(Debug, Clone)]
pub(super) enum Slot<'a> {
    /// A variable of the activation that the evaluation has not read yet, or a variable of a comprehension before its loop.
    Empty,
    /// An accumulator whose initial value is not evaluated yet.
    Lazy(&'a Node),
    /// An element of a JSON array and its shape, not converted to a value yet.
    Element(&'a Json, &'a Shape),
    Value(Result<Val<'a>, EvalError>),
}

/// The state of one evaluation.
///
/// Functions that evaluate one kind of node are not inlined into each other, which keeps the stack of deep programs small.
pub(super) struct Evaluation<'a, 'e> {
    pub(super) lookup: Lookup<'a, 'e>,
    /// The names of the activation's variables, by slot; none for variables of comprehensions.
    variables: &'a [Option<Arc<str>>],
    pub(super) slots: &'e mut [Slot<'a>],
    spent: u64,
    limit: u64,
    pub(super) interrupted: &'e dyn Fn() -> bool,
    /// Turns of all comprehensions.
    pub(super) iterations: u32,
    /// Compiled patterns of strings that are no constants, the newest last.
    patterns: Vec<(Box<str>, Arc<Pattern>)>,
}

impl<'a> Evaluation<'a, '_> {
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimitExceeded) } else { Ok(()) }
    }

    /// Spends 1 `units` times. Beyond the limit, the cost is the limit plus 1, as after the first unit that exceeds it.
    #[inline]
    pub(super) fn spend_units(&mut self, units: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(units);
        if self.spent > self.limit {
            self.spent = self.limit + 1;
            return Err(EvalError::CostLimitExceeded);
        }
        Ok(())
    }

    /// A slot; a variable of the activation is looked up before its first use.
    #[inline]
    pub(super) fn loaded(&mut self, slot: usize) -> &Slot<'a> {
        if matches!(self.slots[slot], Slot::Empty) {
            self.load(slot);
        }
        &self.slots[slot]
    }

    #[inline(never)]
    fn load(&mut self, slot: usize) {
        if let Some(name) = &self.variables[slot] {
            let missing = || Err(EvalError::NoSuchVariable(Box::from(&**name)));
            self.slots[slot] = Slot::Value((self.lookup)(name).unwrap_or_else(missing));
        }
    }

    /// The value of the variable in a slot.
    pub(super) fn slot(&mut self, slot: usize) -> Result<Val<'a>, EvalError> {
        match self.loaded(slot) {
            Slot::Value(value) => value.clone(),
            &Slot::Element(item, shape) => {
                let value = shape.value(item);
                if shape.is_parsed() {
                    self.slots[slot] = Slot::Value(value.clone());
                }
                value
            }
            &Slot::Lazy(node) => {
                let value = self.eval(node);
                self.slots[slot] = Slot::Value(value.clone());
                value
            }
            Slot::Empty => Err(EvalError::NoSuchOverload),
        }
    }

    pub(super) fn eval(&mut self, node: &'a Node) -> Result<Val<'a>, EvalError> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Call(call) => self.call(call),
            Node::And(_)
            | Node::Or(_)
            | Node::Equals(..)
            | Node::Order(..)
            | Node::NotStrictlyFalse(_)
            | Node::InSet(..)
            | Node::Quantifier(_)
            | Node::ExistsOne(_) => self.test(node).map(Val::Bool),
            Node::OptionalOr(sides, unwrap) => self.optional_or(sides, *unwrap),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Object(name, fields) => self.object(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Collector(collector) => self.collector(collector),
            Node::Insert(slot, parts) => self.insert(*slot, parts),
        }
    }

    /// The boolean value of a node; any other value is an error. Nodes with boolean results skip making a [`Val`].
    pub(super) fn test(&mut self, node: &'a Node) -> Result<bool, EvalError> {
        match node {
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equals(sides, negated) => self.equals(sides, *negated),
            Node::Order(sides, holds) => self.order(sides, *holds),
            Node::NotStrictlyFalse(inner) => self.not_strictly_false(inner),
            Node::InSet(item, set) => self.in_set(item, set),
            Node::Quantifier(quantifier) => self.quantifier(quantifier),
            Node::ExistsOne(exists_one) => self.exists_one(exists_one),
            _ => match self.eval(node)? {
                Val::Bool(value) => Ok(value),
                _ => Err(EvalError::NoSuchOverload),
            },
        }
    }

    #[inline(never)]
    fn equals(&mut self, sides: &'a [Node; 2], negated: bool) -> Result<bool, EvalError> {
        let (left, right) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        self.spend(cost::scaled(left.size().min(right.size()), cost::TRAVERSAL))?;
        Ok(equal(&left, &right)? != negated)
    }

    /// Compares two signed integers.
    #[inline(never)]
    fn order(&mut self, sides: &'a [Node; 2], holds: fn(Ordering) -> bool) -> Result<bool, EvalError> {
        let left = self.int(&sides[0])?;
        let right = match &sides[1] {
            Node::Const(Val::Int(value)) => Some(*value),
            other => self.int(other)?,
        };
        let (Some(left), Some(right)) = (left, right) else { return Err(EvalError::NoSuchOverload) };
        self.spend(1)?;
        Ok(holds(left.cmp(&right)))
    }

    /// The value of a node if it is a signed integer.
    #[inline]
    fn int(&mut self, node: &'a Node) -> Result<Option<i64>, EvalError> {
        let value = match node {
            Node::Const(Val::Int(value)) => return Ok(Some(*value)),
            Node::Attribute(attribute) => match self.selected(attribute) {
                Selected::Part(Json::Number(number), Shape::Int)
                    if !attribute.test_only
                        && let Some(value) = number.as_i64() =>
                {
                    self.spend_units(attribute.qualifiers.len() as u64 + 1)?;
                    return Ok(Some(value));
                }
                _ => self.attribute(attribute)?,
            },
            _ => self.eval(node)?,
        };
        Ok(if let Val::Int(value) = value { Some(value) } else { None })
    }

    #[inline(never)]
    fn optional_or(&mut self, sides: &'a [Node; 2], unwrap: bool) -> Result<Val<'a>, EvalError> {
        match self.eval(&sides[0])? {
            Val::Optional(Some(value)) if unwrap => Ok(Val::clone(&value)),
            found @ Val::Optional(Some(_)) => Ok(found),
            Val::Optional(None) => self.eval(&sides[1]),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn not_strictly_false(&mut self, inner: &'a Node) -> Result<bool, EvalError> {
        let value = self.absorbed(inner)?;
        self.spend(1)?;
        Ok(!matches!(value, Ok(Val::Bool(false))))
    }

    #[inline(never)]
    fn in_set(&mut self, item: &'a Node, set: &BTreeSet<Key<'static>>) -> Result<bool, EvalError> {
        let item = self.eval(item)?;
        Ok(Key::of(&item).is_some_and(|key| set.contains(&key)))
    }

    /// The value or the error of a node. Errors that end the evaluation are returned as the outer error.
    pub(super) fn absorbed(&mut self, node: &'a Node) -> Result<Result<Val<'a>, EvalError>, EvalError> {
        match self.eval(node) {
            Err(error) if error.ends_evaluation() => Err(error),
            outcome => Ok(outcome),
        }
    }

    /// `||` if `decisive` is true, else `&&`. A decisive term decides even if the other term is an error.
    #[inline(never)]
    fn logic(&mut self, terms: &'a [Node; 2], decisive: bool) -> Result<bool, EvalError> {
        let mut failure = None;
        for term in terms {
            match self.test(term) {
                Ok(value) if value == decisive => return Ok(decisive),
                Ok(_) => {}
                Err(error) if error.ends_evaluation() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(!decisive), Err)
    }

    #[inline(never)]
    fn call(&mut self, call: &'a CallNode) -> Result<Val<'a>, EvalError> {
        match &call.args[..] {
            [] => self.apply(call, &[]),
            [one] => {
                let args = [self.eval(one)?];
                self.apply(call, &args)
            }
            [one, two] => {
                let args = [self.eval(one)?, self.eval(two)?];
                self.apply(call, &args)
            }
            more => {
                let args = more.iter().map(|arg| self.eval(arg)).collect::<Result<Vec<_>, _>>()?;
                self.apply(call, &args)
            }
        }
    }

    fn apply(&mut self, call: &CallNode, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
        let overload = choose(call, args).ok_or(EvalError::NoSuchOverload)?;
        match args.get(1) {
            Some(Val::String(text)) if call.function.0.matches_pattern => {
                let mut args = args.to_vec();
                args[1] = Val::Opaque(self.pattern(text)?);
                self.invoke(call, overload, &args)
            }
            _ => self.invoke(call, overload, args),
        }
    }

    /// The compiled pattern of a string.
    fn pattern(&mut self, text: &str) -> Result<Arc<Pattern>, EvalError> {
        if let Some((_, pattern)) = self.patterns.iter().find(|(known, _)| **known == *text) {
            return Ok(pattern.clone());
        }
        let pattern = Arc::new(Pattern::new(text)?);
        if self.patterns.len() == KEPT_PATTERNS {
            self.patterns.remove(0);
        }
        self.patterns.push((Box::from(text), pattern.clone()));
        Ok(pattern)
    }

    fn invoke(
        &mut self,
        call: &CallNode,
        overload: &Overload,
        args: &[Val<'a>],
    ) -> Result<Val<'a>, EvalError> {
        let result = (overload.implementation)(args)?;
        let is_known = call.overloads.len() == 1;
        let (target, args) = match args.split_first() {
            Some((target, args)) if overload.is_method => (Some(target), args),
            _ => (None, args),
        };
        let overload_id = is_known.then_some(&*overload.id);
        let seen = ActualCall { overload: overload_id, target, args, result: &result };
        let by_function = call.function.0.cost.as_ref().and_then(|rule| rule.count(&seen));
        let by_overload = || match &overload.cost {
            Some(rule) if is_known => rule.count(&seen),
            _ => None,
        };
        self.spend(by_function.or_else(by_overload).unwrap_or(1))?;
        Ok(result)
    }

    /// The value of an element, entry or field; none if it is marked optional and has no value.
    fn entry(&mut self, node: &'a Node, optional: bool) -> Result<Option<Val<'a>>, EvalError> {
        match self.eval(node)? {
            value if !optional => Ok(Some(value)),
            Val::Optional(value) => Ok(value.map(|value| Val::clone(&value))),
            _ => Err(EvalError::other("cannot initialize optional entry from non-optional value")),
        }
    }

    #[inline(never)]
    fn list(&mut self, elements: &'a [(Node, bool)]) -> Result<Val<'a>, EvalError> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            items.extend(self.entry(element, *optional)?);
        }
        self.spend(cost::LIST)?;
        Ok(Val::list(items))
    }

    #[inline(never)]
    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Result<Val<'a>, EvalError> {
        let mut values = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            if let Some(value) = self.entry(value, *optional)? {
                values.push((key, value));
            }
        }
        self.spend(cost::MAP)?;
        Ok(Val::Map(Map::new(values)?))
    }

    #[inline(never)]
    fn object(
        &mut self,
        name: &Arc<str>,
        fields: &'a [(Arc<str>, Node, bool)],
    ) -> Result<Val<'a>, EvalError> {
        let mut values = BTreeMap::new();
        for (field, value, optional) in fields {
            if let Some(value) = self.entry(value, *optional)? {
                values.insert(field.clone(), value);
            }
        }
        self.spend(cost::OBJECT)?;
        Ok(Val::Object(Object::Owned(name.clone(), Arc::new(values))))
    }
}

/// The first overload that takes the types of the arguments.
fn choose<'c>(call: &'c CallNode, args: &[Val<'_>]) -> Option<&'c Overload> {
    let all = &call.function.0.overloads;
    let mut candidates = call.overloads.iter().filter_map(|index| all.get(*index));
    if call.is_unguarded {
        return candidates.next();
    }
    candidates.find(|overload| {
        overload.args.len() == args.len() && overload.args.iter().zip(args).all(|(ty, arg)| fits(ty, arg))
    })
}

/// Whether a value is of a type. Of a list, only the first element is checked.
fn fits(ty: &Type, value: &Val<'_>) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Param(_) | Type::Error | Type::Var(_), _) => true,
        (Type::Null, Val::Null)
        | (Type::Bool, Val::Bool(_))
        | (Type::Int, Val::Int(_))
        | (Type::Uint, Val::Uint(_))
        | (Type::Double, Val::Double(_))
        | (Type::String, Val::String(_))
        | (Type::Bytes, Val::Bytes(_))
        | (Type::Timestamp, Val::Timestamp(_))
        | (Type::Duration, Val::Duration(_))
        | (Type::Map(..), Val::Map(_) | Val::Object(_))
        | (Type::Type(_), Val::Type(_)) => true,
        // Overloads of lists differ by the element type. The first element is enough, since all elements have one type. Functions of
        // lists of lists also take lists of other elements.
        (Type::List(element), Val::List(list)) => {
            matches!(**element, Type::List(_)) || list.get(0).map_or(true, |first| fits(element, &first))
        }
        (Type::Object(name), Val::Object(object)) => object.type_name() == &**name,
        (Type::Object(name), Val::Opaque(value)) => value.type_name() == &**name,
        (Type::Opaque(name, _), Val::Opaque(value)) => value.type_name() == &**name,
        (Type::Opaque(name, _), Val::Optional(_)) => &**name == OPTIONAL,
        _ => false,
    }
}
