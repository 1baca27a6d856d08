//! Functions of optional values.

use super::{Outcome, list};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::parse::operator;
use crate::types::{OPTIONAL, Type};
use crate::value::Val;
use std::sync::Arc;

/// Declares the functions of optional values and the name of their type.
pub(super) fn add(d: &mut Declarations) {
    let (k, v) = (|| Type::param("K"), || Type::param("V"));
    let opt = || Type::optional(v());
    let (items, map) = (|| Type::list(v()), || Type::map(k(), v()));
    d.type_names.insert(Arc::from(OPTIONAL), opt());
    d.add(
        "optional.of",
        Overload::function("optional_of", [v()], opt(), |args| {
            args.first().cloned().map(Val::some).ok_or(EvalError::NoSuchOverload)
        }),
    );
    d.add("optional.none", Overload::function("optional_none", [], opt(), |_| Ok(Val::none())));
    d.add("optional.ofNonZeroValue", Overload::function("optional_ofNonZeroValue", [v()], opt(), non_zero));
    d.add("optional.unwrap", Overload::function("optional_unwrap", [Type::list(opt())], items(), unwrap));
    d.add("unwrapOpt", Overload::method("optional_unwrapOpt", [Type::list(opt())], items(), unwrap));
    d.add(
        "hasValue",
        Overload::method("optional_hasValue", [opt()], Type::Bool, |args| match args {
            [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
            _ => Err(EvalError::NoSuchOverload),
        }),
    );
    d.add("value", Overload::method("optional_value", [opt()], v(), value));
    d.add("or", Overload::method("optional_or_optional", [opt(), opt()], opt(), or));
    d.add("orValue", Overload::method("optional_orValue_value", [opt(), v()], v(), or_value));
    d.add(
        "first",
        Overload::method("list_first", [items()], opt(), |args| {
            let list = list(args, 0)?;
            if list.is_empty() { Ok(Val::none()) } else { list.get(0).map(Val::some) }
        }),
    );
    d.add(
        "last",
        Overload::method("list_last", [items()], opt(), |args| {
            let list = list(args, 0)?;
            if list.is_empty() { Ok(Val::none()) } else { list.get(list.len() - 1).map(Val::some) }
        }),
    );
    let index = |d: &mut Declarations, name, id: &str, from: Type, key: Type, to: Type| {
        d.add(name, Overload::function(id, [from, key], to, |_| Err(EvalError::NoSuchOverload)));
    };
    let (opt_list, opt_map) = (|| Type::optional(items()), || Type::optional(map()));
    index(d, operator::OPT_SELECT, "select_optional_field", Type::Dyn, Type::String, opt());
    index(d, operator::OPT_INDEX, "list_optindex_optional_int", items(), Type::Int, opt());
    index(d, operator::OPT_INDEX, "optional_list_optindex_optional_int", opt_list(), Type::Int, opt());
    index(d, operator::OPT_INDEX, "map_optindex_optional_value", map(), k(), opt());
    index(d, operator::OPT_INDEX, "optional_map_optindex_optional_value", opt_map(), k(), opt());
    index(d, operator::INDEX, "optional_list_index_int", opt_list(), Type::Int, opt());
    index(d, operator::INDEX, "optional_map_index_value", opt_map(), k(), opt());
}

fn non_zero<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let value = args.first().cloned().ok_or(EvalError::NoSuchOverload)?;
    Ok(if value.is_zero() { Val::none() } else { Val::some(value) })
}

fn value<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Optional(Some(value))] => Ok(Val::clone(value)),
        [Val::Optional(None)] => Err(EvalError::other("optional.none() dereference")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn or<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [found @ Val::Optional(Some(_)), _] | [Val::Optional(None), found] => Ok(found.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn or_value<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Optional(Some(value)), _] => Ok(Val::clone(value)),
        [Val::Optional(None), otherwise] => Ok(otherwise.clone()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn unwrap<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let mut items = Vec::new();
    for item in list(args, 0)?.iter() {
        match item? {
            Val::Optional(value) => items.extend(value.map(|value| Val::clone(&value))),
            _ => return Err(EvalError::other("value is not optional")),
        }
    }
    Ok(Val::list(items))
}
