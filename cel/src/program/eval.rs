//! The evaluator: walks the nodes of a program and counts what each step costs.

use super::node::{Attribute, CallNode, Fold, Node, Quantifier, Root};
use crate::cost::{self, ActualCall};
use crate::env::Overload;
use crate::error::EvalError;
use crate::library::pattern::Pattern;
use crate::limits::{INTERRUPT_INTERVAL, KEPT_PATTERNS};
use crate::types::{OPTIONAL, Type};
use crate::value::{Key, List, Map, Object, Val, equal};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A question for a variable.
type Lookup<'a, 'e> = &'e dyn Fn(&str) -> Option<Result<Val<'a>, EvalError>>;

/// Evaluates a program.
pub(super) fn run<'a>(
    root: &'a Node,
    slots: usize,
    lookup: Lookup<'a, '_>,
    limit: u64,
    interrupted: &dyn Fn() -> bool,
) -> (Result<Val<'a>, EvalError>, u64) {
    let slots = (0..slots).map(|_| Slot::Empty).collect();
    let mut evaluation =
        Evaluation { lookup, slots, spent: 0, limit, interrupted, iterations: 0, patterns: Vec::new() };
    let value = evaluation.eval(root);
    (value, evaluation.spent)
}

/// The value of a node without variables.
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

/// A variable of a loop.
#[derive(Debug, Clone)]
pub(super) enum Slot<'a> {
    Empty,
    /// An accumulator that nothing has read yet.
    Lazy(&'a Node),
    Value(Result<Val<'a>, EvalError>),
}

/// One evaluation. Its functions for single nodes are not inlined into each other, which keeps the stack of deep programs small.
pub(super) struct Evaluation<'a, 'e> {
    pub(super) lookup: Lookup<'a, 'e>,
    pub(super) slots: Vec<Slot<'a>>,
    spent: u64,
    limit: u64,
    interrupted: &'e dyn Fn() -> bool,
    iterations: u32,
    /// Patterns that were no constants, the latest last.
    patterns: Vec<(Box<str>, Arc<Pattern>)>,
}

impl<'a> Evaluation<'a, '_> {
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimitExceeded) } else { Ok(()) }
    }

    pub(super) fn variable(&mut self, name: &str) -> Result<Val<'a>, EvalError> {
        (self.lookup)(name).unwrap_or_else(|| Err(EvalError::NoSuchVariable(Box::from(name))))
    }

    pub(super) fn slot(&mut self, slot: usize) -> Result<Val<'a>, EvalError> {
        match &self.slots[slot] {
            Slot::Value(value) => value.clone(),
            Slot::Lazy(node) => {
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
            | Node::Quantifier(_) => self.test(node).map(Val::Bool),
            Node::OptionalOr(sides, unwrap) => self.optional_or(sides, *unwrap),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Object(name, fields) => self.object(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Append(slot, item, cost) => self.append(*slot, item, *cost),
            Node::Insert(slot, parts) => self.insert(*slot, parts),
        }
    }

    /// The truth value of a node; any other value is an error. Nodes that are true or false by nature are answered without a value.
    pub(super) fn test(&mut self, node: &'a Node) -> Result<bool, EvalError> {
        match node {
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equals(sides, negated) => self.equals(sides, *negated),
            Node::Order(sides, holds) => self.order(sides, *holds),
            Node::NotStrictlyFalse(inner) => self.not_strictly_false(inner),
            Node::InSet(item, set) => self.in_set(item, set),
            Node::Quantifier(quantifier) => self.quantifier(quantifier),
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

    /// Compares two whole numbers.
    #[inline(never)]
    fn order(&mut self, sides: &'a [Node; 2], holds: fn(Ordering) -> bool) -> Result<bool, EvalError> {
        let (left, right) = (self.int(&sides[0])?, self.int(&sides[1])?);
        let (Some(left), Some(right)) = (left, right) else { return Err(EvalError::NoSuchOverload) };
        self.spend(1)?;
        Ok(holds(left.cmp(&right)))
    }

    /// The whole number that a node gives; none if it gives something else.
    #[inline]
    fn int(&mut self, node: &'a Node) -> Result<Option<i64>, EvalError> {
        let value = match node {
            Node::Const(Val::Int(value)) => return Ok(Some(*value)),
            Node::Attribute(attribute) => match self.local(attribute) {
                Some(Val::Int(value)) => {
                    let value = *value;
                    self.spend(1)?;
                    return Ok(Some(value));
                }
                _ => self.attribute(attribute)?,
            },
            _ => self.eval(node)?,
        };
        Ok(if let Val::Int(value) = value { Some(value) } else { None })
    }

    /// The value of a variable of a loop, if that is all that an attribute reads.
    #[inline]
    fn local(&self, attribute: &Attribute) -> Option<&Val<'a>> {
        match (&attribute.root, &attribute.qualifiers[..], attribute.test_only) {
            (Root::Slot(slot), [], false) => match &self.slots[*slot] {
                Slot::Value(Ok(value)) => Some(value),
                _ => None,
            },
            _ => None,
        }
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

    /// The outcome of a node whose errors are absorbed; those that end the evaluation are not.
    fn absorbed(&mut self, node: &'a Node) -> Result<Result<Val<'a>, EvalError>, EvalError> {
        match self.eval(node) {
            Err(error) if error.ends_evaluation() => Err(error),
            outcome => Ok(outcome),
        }
    }

    /// `||` if `decisive` is true, `&&` otherwise: one decisive term decides, whatever errors the other has.
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

    /// The compiled pattern of a text.
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
        let seen = ActualCall { overload: is_known.then_some(&*overload.id), args, result: &result };
        let by_function = call.function.0.counter.as_ref().and_then(|count| count(&seen));
        let by_overload = || match &overload.counter {
            Some(count) if is_known => count(&seen),
            _ => None,
        };
        self.spend(by_function.or_else(by_overload).unwrap_or(1))?;
        Ok(result)
    }

    /// The value to put in for an entry marked optional, if there is one.
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

    /// `all` or `exists`. Spends what the loop that the macro stands for would spend, in its order: each turn begins with a test of the
    /// accumulator, which costs nothing but the test itself while the accumulator is an error.
    #[inline(never)]
    fn quantifier(&mut self, quantifier: &'a Quantifier) -> Result<bool, EvalError> {
        let Quantifier { range, var, var2, body, decisive } = quantifier;
        let range = self.eval(range)?;
        let (keys, turns) = turns(&range)?;
        // Reading the accumulator, and `!` before it if the loop is that of `exists`.
        let read = if *decisive { 2 } else { 1 };
        let mut accu = Ok(!decisive);
        for turn in 0..turns {
            if accu.is_ok() {
                self.spend(read)?;
            }
            self.spend(1)?;
            if accu == Ok(*decisive) {
                break;
            }
            self.set_variables(*var, *var2, &range, &keys, turn);
            if accu.is_ok() {
                self.spend(1)?;
            }
            match self.test(body) {
                Ok(value) if value == *decisive => accu = Ok(value),
                Ok(_) => {}
                Err(error) if error.ends_evaluation() => return Err(error),
                Err(error) => accu = accu.and(Err(error)),
            }
            self.count_turn()?;
        }
        if accu.is_ok() {
            self.spend(1)?;
        }
        accu
    }

    /// Puts the values of a turn into the variables of a loop.
    #[inline]
    fn set_variables(
        &mut self,
        var: usize,
        var2: Option<usize>,
        range: &Val<'a>,
        keys: &[Val<'a>],
        turn: usize,
    ) {
        let (first, second) = match range {
            Val::List(list) if var2.is_none() => (list.get(turn), None),
            _ => turn_values(range, keys, turn, var2.is_some()),
        };
        self.slots[var] = Slot::Value(first);
        if let (Some(slot), Some(value)) = (var2, second) {
            self.slots[slot] = Slot::Value(value);
        }
    }

    /// Asks now and then whether the evaluation is to end.
    #[inline]
    fn count_turn(&mut self) -> Result<(), EvalError> {
        self.iterations += 1;
        if self.iterations.is_multiple_of(INTERRUPT_INTERVAL) && (self.interrupted)() {
            return Err(EvalError::Interrupted);
        }
        Ok(())
    }

    #[inline(never)]
    fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a>, EvalError> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.accu] = Slot::Lazy(&fold.init);
        let (keys, turns) = turns(&range)?;
        for turn in 0..turns {
            self.set_variables(fold.var, fold.var2, &range, &keys, turn);
            match &fold.condition {
                Node::Const(Val::Bool(true)) => {}
                condition => {
                    if let Ok(Val::Bool(false)) = self.absorbed(condition)? {
                        break;
                    }
                }
            }
            let next = self.absorbed(&fold.step)?;
            self.slots[fold.accu] = Slot::Value(next);
            self.count_turn()?;
        }
        self.eval(&fold.result)
    }

    /// Takes the value of an accumulator, which is about to be replaced.
    fn take(&mut self, slot: usize) -> Result<Val<'a>, EvalError> {
        if let Slot::Lazy(node) = &self.slots[slot] {
            return self.eval(node);
        }
        match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
            Slot::Value(value) => value,
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn append(&mut self, slot: usize, item: &'a Node, cost: u64) -> Result<Val<'a>, EvalError> {
        if let Slot::Value(Err(error)) = &self.slots[slot] {
            return Err(error.clone());
        }
        let item = self.eval(item)?;
        // Reading the accumulator, making the list of one element, and adding it.
        self.spend(cost + 2)?;
        match self.take(slot)? {
            Val::List(List::Owned(mut items)) => {
                Arc::make_mut(&mut items).push(item);
                Ok(Val::List(List::Owned(items)))
            }
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn insert(&mut self, slot: usize, parts: &'a [Node]) -> Result<Val<'a>, EvalError> {
        if let Slot::Value(Err(error)) = &self.slots[slot] {
            return Err(error.clone());
        }
        let parts = parts.iter().map(|part| self.eval(part)).collect::<Result<Vec<_>, _>>()?;
        // Reading the accumulator, and the call.
        self.spend(2)?;
        let Val::Map(Map::Owned(mut entries)) = self.take(slot)? else {
            return Err(EvalError::NoSuchOverload);
        };
        let target = Arc::make_mut(&mut entries);
        match &parts[..] {
            [key, value] => insert_new(target, key.clone(), value.clone())?,
            [Val::Map(map)] => {
                for key in map.keys() {
                    let value = map.get(&key)?.unwrap_or(Val::Null);
                    insert_new(target, key, value)?;
                }
            }
            _ => return Err(EvalError::NoSuchOverload),
        }
        Ok(Val::Map(Map::Owned(entries)))
    }
}

/// The keys of a range, if it has keys, and how many turns a loop over it has.
fn turns<'a>(range: &Val<'a>) -> Result<(Vec<Val<'a>>, usize), EvalError> {
    let keys = match range {
        Val::List(list) => return Ok((Vec::new(), list.len())),
        Val::Map(map) => map.keys(),
        Val::Object(object) => object.names().into_iter().map(Val::string).collect(),
        _ => return Err(EvalError::NoSuchOverload),
    };
    let turns = keys.len();
    Ok((keys, turns))
}

/// The values of the one or two variables of a loop at a turn.
#[inline(never)]
fn turn_values<'a>(
    range: &Val<'a>,
    keys: &[Val<'a>],
    turn: usize,
    two: bool,
) -> (Result<Val<'a>, EvalError>, Option<Result<Val<'a>, EvalError>>) {
    match (range, keys.get(turn)) {
        (Val::List(list), _) if two => (Ok(Val::Int(turn as i64)), Some(list.get(turn))),
        (Val::List(list), _) => (list.get(turn), None),
        (_, Some(key)) if !two => (Ok(key.clone()), None),
        (Val::Map(map), Some(key)) => {
            (Ok(key.clone()), Some(map.get(key).map(|value| value.unwrap_or(Val::Null))))
        }
        (Val::Object(object), Some(key)) => {
            let value = object.get(key.as_str().unwrap_or_default());
            (Ok(key.clone()), Some(value.map(|value| value.unwrap_or(Val::Null))))
        }
        _ => (Err(EvalError::NoSuchOverload), None),
    }
}

/// Adds an entry whose key must be new.
pub(crate) fn insert_new<'a>(
    entries: &mut BTreeMap<Key<'a>, (Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
) -> Result<(), EvalError> {
    let at = Key::of(&key).ok_or(EvalError::NoSuchOverload)?;
    if entries.contains_key(&at) {
        let text = crate::library::text_of(&key);
        return Err(EvalError::other(format!("insert failed: key {text} already exists")));
    }
    entries.insert(at, (key, value));
    Ok(())
}

/// The first overload whose signature the arguments fit.
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

/// Whether a value is of a type, as far as one look at the value tells.
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
        // Elements tell overloads of lists apart; all have one type, so that the first tells enough. Functions of lists of lists
        // also take lists of other elements.
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
