//! The functions of the language in groups, each with its signatures, implementation and costs.

mod aggregates;
mod arithmetic;
mod convert;
pub(crate) mod format;
mod lists;
mod optional;
pub(crate) mod pattern;
mod sets;
mod standard;
mod strings;
mod times;
mod two_variables;

use crate::declarations::{Declarations, Library};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{List, Val};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of a function.
type Outcome<'a> = Result<Val<'a>, EvalError>;

/// The ordered types, with their names in ids of overloads.
const COMPARABLE: [(&str, Type); 8] = [
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("bool", Type::Bool),
    ("duration", Type::Duration),
    ("timestamp", Type::Timestamp),
    ("string", Type::String),
    ("bytes", Type::Bytes),
];

/// The type names of every environment.
pub(crate) fn standard_types() -> BTreeMap<Arc<str>, Type> {
    let list = Type::list(Type::Dyn);
    let map = Type::map(Type::Dyn, Type::Dyn);
    let types = [
        Type::Bool,
        Type::Bytes,
        Type::Double,
        Type::Duration,
        Type::Int,
        list,
        map,
        Type::Null,
        Type::String,
        Type::Timestamp,
        Type::Type(None),
        Type::Uint,
    ];
    types.into_iter().map(|ty| (Arc::from(ty.runtime_name()), ty)).collect()
}

/// Declares the standard functions.
pub(crate) fn standard(declarations: &mut Declarations) {
    standard::add(declarations);
    arithmetic::add(declarations);
    convert::add(declarations);
    times::add(declarations);
    pattern::add_standard(declarations);
}

/// Declares an optional part of the language.
pub(crate) fn add(declarations: &mut Declarations, library: Library) {
    match library {
        Library::Optional => {
            declarations.syntax.optional = true;
            optional::add(declarations);
        }
        Library::TwoVariables => {
            declarations.syntax.two_variables = true;
            two_variables::add(declarations);
        }
        Library::Strings => strings::add(declarations),
        Library::Lists => {
            declarations.syntax.sort_by = true;
            lists::add(declarations);
        }
        Library::Aggregates => aggregates::add(declarations),
        Library::Sets => sets::add(declarations),
        Library::Regex => pattern::add(declarations),
        Library::Bind => declarations.syntax.bind = true,
    }
}

fn string<'v>(args: &'v [Val<'_>], index: usize) -> Result<&'v str, EvalError> {
    args.get(index).and_then(Val::as_str).ok_or(EvalError::NoSuchOverload)
}

fn int(args: &[Val<'_>], index: usize) -> Result<i64, EvalError> {
    match args.get(index) {
        Some(Val::Int(value)) => Ok(*value),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn list<'v, 'a>(args: &'v [Val<'a>], index: usize) -> Result<&'v List<'a>, EvalError> {
    match args.get(index) {
        Some(Val::List(list)) => Ok(list),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A string result; an error if the string is too long.
fn text<'a>(text: String) -> Outcome<'a> {
    if text.len() > crate::limits::STRING_BYTES {
        return Err(EvalError::other("string is too long"));
    }
    Ok(Val::string(text))
}

/// Whether a list has an element equal to a value.
fn contains(list: &List<'_>, value: &Val<'_>) -> Result<bool, EvalError> {
    for item in list.iter() {
        if crate::value::equal(&item?, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}
