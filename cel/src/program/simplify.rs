//! Recognises the comprehensions of macros and replaces them by nodes that loop faster.
//!
//! A replacement has the value, the errors and the cost of the comprehension, under any cost limit. Tests compare the two.

use super::node::{Attribute, CallNode, Collector, ExistsOne, Fold, Node, Quantifier, Root};
use crate::cost::LIST;
use crate::value::{List, Val};

/// The node of a comprehension: the node of its macro, if there is one, or else the general loop.
pub(super) fn simplified(fold: Fold) -> Node {
    let found = quantifier(fold).or_else(exists_one).or_else(collector);
    found.unwrap_or_else(|fold| Node::Fold(Box::new(with_insert(fold))))
}

/// The loop of `all` or `exists`, or the comprehension back if it has another form.
fn quantifier(mut fold: Fold) -> Result<Node, Fold> {
    let accu = fold.accu;
    let (decisive, terms) = match (&fold.init, &mut fold.step) {
        (Node::Const(Val::Bool(true)), Node::And(terms)) => (false, terms),
        (Node::Const(Val::Bool(false)), Node::Or(terms)) => (true, terms),
        _ => return Err(fold),
    };
    let goes_on = match &fold.condition {
        Node::NotStrictlyFalse(inner) => match &**inner {
            Node::Call(call) if decisive => {
                only_overload(call) == Some("logical_not")
                    && call.args.first().is_some_and(|arg| is_slot(arg, accu))
            }
            inner => !decisive && is_slot(inner, accu),
        },
        _ => false,
    };
    if !goes_on || !is_slot(&terms[0], accu) || !is_slot(&fold.result, accu) {
        return Err(fold);
    }
    let body = std::mem::replace(&mut terms[1], Node::Const(Val::Null));
    Ok(Node::Quantifier(Box::new(Quantifier { iteration: fold.iteration, body, decisive })))
}

/// The loop of `exists_one`, or the comprehension back if it has another form.
fn exists_one(mut fold: Fold) -> Result<Node, Fold> {
    let accu = fold.accu;
    let is_one = |node: &Node| matches!(node, Node::Const(Val::Int(1)));
    let counts_from_zero = matches!(fold.init, Node::Const(Val::Int(0))) && is_true(&fold.condition);
    let compares_with_one = matches!(&fold.result, Node::Equals(sides, false)
        if is_slot(&sides[0], accu) && is_one(&sides[1]));
    let is_increment = |call: &CallNode| {
        only_overload(call) == Some("add_int64")
            && matches!(&call.args[..], [left, right] if is_slot(left, accu) && is_one(right))
    };
    match filtered(&mut fold.step, accu) {
        Some((predicate, Node::Call(call)))
            if counts_from_zero && compares_with_one && is_increment(call) =>
        {
            let predicate = std::mem::replace(predicate, Node::Const(Val::Null));
            Ok(Node::ExistsOne(Box::new(ExistsOne { iteration: fold.iteration, predicate })))
        }
        _ => Err(fold),
    }
}

/// The loop of `map`, `filter` or `transformList`, or the comprehension back if it has another form.
fn collector(mut fold: Fold) -> Result<Node, Fold> {
    let accu = fold.accu;
    let starts_empty = matches!(&fold.init, Node::Const(Val::List(list)) if list.is_empty());
    if !starts_empty || !is_true(&fold.condition) || !is_slot(&fold.result, accu) {
        return Err(fold);
    }
    let (filter, added) = match &mut fold.step {
        Node::Call(call) => (None, appended(call, accu)),
        step => match filtered(step, accu) {
            Some((filter, Node::Call(call))) => (Some(filter), appended(call, accu)),
            _ => return Err(fold),
        },
    };
    let Some((element, list_cost)) = added else { return Err(fold) };
    let filter = filter.map(|filter| std::mem::replace(filter, Node::Const(Val::Null)));
    Ok(Node::Collector(Box::new(Collector { iteration: fold.iteration, filter, element, list_cost })))
}

/// The comprehension of `transformMap` or `transformMapEntry`, changed to insert into the accumulator in place; others unchanged.
fn with_insert(mut fold: Fold) -> Fold {
    let accu = fold.accu;
    if !matches!(&fold.init, Node::Const(Val::Map(map)) if map.is_empty()) {
        return fold;
    }
    let call = match &mut fold.step {
        step @ Node::Call(_) => step,
        step => match filtered(step, accu) {
            Some((_, call)) => call,
            None => return fold,
        },
    };
    if let Node::Call(inserting) = call
        && only_overload(inserting).is_some_and(|id| id.starts_with("@mapInsert"))
        && inserting.args.first().is_some_and(|node| is_slot(node, accu))
    {
        inserting.args.remove(0);
        *call = Node::Insert(accu, std::mem::take(&mut inserting.args));
    }
    fold
}

/// The element that `accu + [element]` adds and the cost of making the list; none, with the call unchanged, for other calls.
fn appended(call: &mut CallNode, accu: usize) -> Option<(Node, u64)> {
    if only_overload(call) != Some("add_list") || !call.args.first().is_some_and(|node| is_slot(node, accu)) {
        return None;
    }
    match call.args.get_mut(1)? {
        Node::List(items) if matches!(items[..], [(_, false)]) => Some((items.pop()?.0, LIST)),
        Node::Const(Val::List(List::Owned(items))) if items.len() == 1 => {
            Some((Node::Const(items[0].clone()), 0))
        }
        _ => None,
    }
}

/// The condition and the first branch of `condition ? branch : accu`.
fn filtered(step: &mut Node, accu: usize) -> Option<(&mut Node, &mut Node)> {
    let Node::Attribute(attribute) = step else { return None };
    let Attribute { root: Root::Conditional(condition, yes, no), qualifiers, test_only: false } =
        &mut **attribute
    else {
        return None;
    };
    let keeps_accu = matches!(no.root, Root::Slot(slot) if slot == accu) && no.qualifiers.is_empty();
    match &mut yes.root {
        Root::Relative(node) if keeps_accu && qualifiers.is_empty() && yes.qualifiers.is_empty() => {
            Some((condition, node))
        }
        _ => None,
    }
}

fn is_true(node: &Node) -> bool {
    matches!(node, Node::Const(Val::Bool(true)))
}

/// Whether a node reads the variable in a slot, without selections.
fn is_slot(node: &Node, slot: usize) -> bool {
    matches!(node, Node::Attribute(attribute)
        if matches!(attribute.root, Root::Slot(known) if known == slot) && attribute.qualifiers.is_empty())
}

/// The id of a call's overload, if the type checker left only one.
fn only_overload(call: &CallNode) -> Option<&str> {
    match call.overloads[..] {
        [index] => call.function.0.overloads.get(index).map(|overload| &*overload.id),
        _ => None,
    }
}
