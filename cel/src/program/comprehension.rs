//! Evaluates comprehensions: the general loop, and a loop for each macro that spends exactly what the general loop spends.

use super::eval::{Evaluation, Slot};
use super::node::{Collector, ExistsOne, Fold, Iteration, Node, Quantifier};
use crate::error::EvalError;
use crate::limits::INTERRUPT_INTERVAL;
use crate::value::{List, Map, Shape, Val, insert_new};
use serde_json::Value as Json;
use std::sync::Arc;

/// Items of a collected list that are allocated before its loop runs. The cost limit bounds the growth beyond.
const RESERVED_ITEMS: usize = 1024;

impl<'a> Evaluation<'a, '_> {
    /// A comprehension of any form.
    #[inline(never)]
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a>, EvalError> {
        let range = self.range(&fold.iteration)?;
        self.slots[fold.accu] = Slot::Lazy(&fold.init);
        for index in 0..range.length {
            self.set_variables(&fold.iteration, &range, index);
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
            self.count_iteration()?;
        }
        self.eval(&fold.result)
    }

    /// `all` or `exists`. Every iteration first tests the accumulator; the test reads the accumulator only while it is no error.
    #[inline(never)]
    pub(super) fn quantifier(&mut self, quantifier: &'a Quantifier) -> Result<bool, EvalError> {
        let Quantifier { iteration, body, decisive } = quantifier;
        let range = self.range(iteration)?;
        // The test `@not_strictly_false(accu)`; `exists` has `!` in it.
        let test_cost = if *decisive { 3 } else { 2 };
        let mut accu = Ok(!decisive);
        for index in 0..range.length {
            self.spend_units(if accu.is_ok() { test_cost } else { 1 })?;
            if accu == Ok(*decisive) {
                break;
            }
            self.set_variables(iteration, &range, index);
            if accu.is_ok() {
                self.spend(1)?;
            }
            match self.test(body) {
                Ok(value) if value == *decisive => accu = Ok(value),
                Ok(_) => {}
                Err(error) if error.ends_evaluation() => return Err(error),
                Err(error) => accu = accu.and(Err(error)),
            }
            self.count_iteration()?;
        }
        if accu.is_ok() {
            self.spend(1)?;
        }
        accu
    }

    /// `exists_one`. The last error is the result; after an error, the predicate still runs for the remaining elements.
    #[inline(never)]
    pub(super) fn exists_one(&mut self, exists_one: &'a ExistsOne) -> Result<bool, EvalError> {
        let ExistsOne { iteration, predicate } = exists_one;
        let range = self.range(iteration)?;
        let mut count = Ok(0_usize);
        for index in 0..range.length {
            self.set_variables(iteration, &range, index);
            match self.test(predicate) {
                Ok(true) => {
                    if let Ok(count) = &mut count {
                        // Reading the accumulator, and adding 1.
                        self.spend_units(2)?;
                        *count += 1;
                    }
                }
                Ok(false) => {}
                Err(error) if error.ends_evaluation() => return Err(error),
                Err(error) => count = Err(error),
            }
            self.count_iteration()?;
        }
        let count = count?;
        // Reading the accumulator, and comparing it with 1.
        self.spend_units(2)?;
        Ok(count == 1)
    }

    /// `map`, `filter` or `transformList`. After an error, the filter still runs for the remaining elements, and its error replaces
    /// the former; elements are no longer evaluated.
    #[inline(never)]
    pub(super) fn collector(&mut self, collector: &'a Collector) -> Result<Val<'a>, EvalError> {
        let Collector { iteration, filter, element, list_cost } = collector;
        let range = self.range(iteration)?;
        let mut items = Ok(Vec::new());
        if let (Ok(items), None) = (&mut items, filter) {
            items.reserve(range.length.min(RESERVED_ITEMS));
        }
        for index in 0..range.length {
            self.set_variables(iteration, &range, index);
            if let Err(error) = self.collect(filter.as_ref(), element, *list_cost, &mut items) {
                if error.ends_evaluation() {
                    return Err(error);
                }
                items = Err(error);
            }
            self.count_iteration()?;
        }
        let items = items?;
        self.spend(1)?;
        Ok(Val::list(items))
    }

    /// Adds an element to the items of a collector, if the filter holds and the items are no error.
    fn collect(
        &mut self,
        filter: Option<&'a Node>,
        element: &'a Node,
        list_cost: u64,
        items: &mut Result<Vec<Val<'a>>, EvalError>,
    ) -> Result<(), EvalError> {
        if let Some(filter) = filter
            && !self.test(filter)?
        {
            return Ok(());
        }
        let Ok(items) = items else { return Ok(()) };
        // Reading the accumulator, making a list of the element, and joining the two.
        self.spend(1)?;
        let item = self.eval(element)?;
        self.spend(list_cost)?;
        self.spend(1)?;
        items.push(item);
        Ok(())
    }

    /// The value of the accumulator in a slot, taken out because the caller replaces it.
    fn take(&mut self, slot: usize) -> Result<Val<'a>, EvalError> {
        if let Slot::Lazy(node) = &self.slots[slot] {
            return self.eval(node);
        }
        match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
            Slot::Value(value) => value,
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// The accumulator of `transformMap` or `transformMapEntry` with new entries.
    #[inline(never)]
    pub(super) fn insert(&mut self, slot: usize, parts: &'a [Node]) -> Result<Val<'a>, EvalError> {
        if let Slot::Value(Err(error)) = &self.slots[slot] {
            return Err(error.clone());
        }
        // Reading the accumulator. The call costs 1 too, if it succeeds.
        self.spend(1)?;
        let parts = parts.iter().map(|part| self.eval(part)).collect::<Result<Vec<_>, _>>()?;
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
        self.spend(1)?;
        Ok(Val::Map(Map::Owned(entries)))
    }

    fn range(&mut self, iteration: &'a Iteration) -> Result<Range<'a>, EvalError> {
        Range::new(self.eval(&iteration.range)?, iteration.var2.is_some())
    }

    /// Puts the values of an iteration into the slots of the iteration variables.
    #[inline]
    fn set_variables(&mut self, iteration: &Iteration, range: &Range<'a>, index: usize) {
        if let Some((items, shape)) = range.elements {
            self.slots[iteration.var] = Slot::Element(&items[index], shape);
            return;
        }
        let (first, second) = range.variables(index, iteration.var2.is_some());
        self.slots[iteration.var] = Slot::Value(first);
        if let (Some(slot), Some(value)) = (iteration.var2, second) {
            self.slots[slot] = Slot::Value(value);
        }
    }

    /// Counts an iteration; every [`INTERRUPT_INTERVAL`] of them the caller's interrupt may end the evaluation.
    #[inline]
    fn count_iteration(&mut self) -> Result<(), EvalError> {
        self.iterations += 1;
        if self.iterations.is_multiple_of(INTERRUPT_INTERVAL) && (self.interrupted)() {
            return Err(EvalError::Interrupted);
        }
        Ok(())
    }
}

/// The value that a comprehension iterates over.
struct Range<'a> {
    value: Val<'a>,
    /// Keys of a map or names of an object's fields; empty for lists.
    keys: Vec<Val<'a>>,
    /// The items of a JSON array and their shape, if the loop has one variable.
    elements: Option<(&'a [Json], &'a Shape)>,
    length: usize,
}

impl<'a> Range<'a> {
    fn new(value: Val<'a>, has_two: bool) -> Result<Self, EvalError> {
        let keys = match &value {
            Val::List(list) => {
                let elements = match list {
                    List::Json(items, shape, _) if !has_two => Some((*items, *shape)),
                    _ => None,
                };
                let length = list.len();
                return Ok(Self { value, keys: Vec::new(), elements, length });
            }
            Val::Map(map) => map.keys(),
            Val::Object(object) => object.names().into_iter().map(Val::string).collect(),
            _ => return Err(EvalError::NoSuchOverload),
        };
        let length = keys.len();
        Ok(Self { value, keys, elements: None, length })
    }

    /// The values of the one or two iteration variables of an iteration.
    #[inline(never)]
    fn variables(
        &self,
        index: usize,
        has_two: bool,
    ) -> (Result<Val<'a>, EvalError>, Option<Result<Val<'a>, EvalError>>) {
        match (&self.value, self.keys.get(index)) {
            (Val::List(list), _) if has_two => (Ok(Val::Int(index as i64)), Some(list.get(index))),
            (Val::List(list), _) => (list.get(index), None),
            (_, Some(key)) if !has_two => (Ok(key.clone()), None),
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
}
