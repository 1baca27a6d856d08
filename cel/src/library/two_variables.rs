//! Internal functions in expansions of macros with two variables.

use super::Outcome;
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::parse::operator;
use crate::types::Type;
use crate::value::{Map, Val, insert_new};
use std::sync::Arc;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    let (k, v) = (Type::param("K"), Type::param("V"));
    let map = Type::map(k.clone(), v.clone());
    let entry = Overload::function("@mapInsert_map_key_value", [map.clone(), k, v], map.clone(), insert);
    d.add(operator::MAP_INSERT, entry);
    let entries = Overload::function("@mapInsert_map_map", [map.clone(), map.clone()], map, insert);
    d.add(operator::MAP_INSERT, entries);
}

/// A map with one new entry, or with the entries of another map. The map must not have the keys yet.
fn insert<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (Some(Val::Map(map)), rest) = (args.first(), args.get(1..).unwrap_or_default()) else {
        return Err(EvalError::NoSuchOverload);
    };
    let pairs = |map: &Map<'a>| {
        let pair = |key: Val<'a>| {
            let value = map.get(&key)?.unwrap_or(Val::Null);
            Ok((key, value))
        };
        map.keys().into_iter().map(pair).collect::<Result<Vec<_>, EvalError>>()
    };
    let Map::Owned(mut entries) = Map::new(pairs(map)?)? else { return Err(EvalError::NoSuchOverload) };
    let target = Arc::make_mut(&mut entries);
    match rest {
        [key, value] => insert_new(target, key.clone(), value.clone())?,
        [Val::Map(more)] => {
            for (key, value) in pairs(more)? {
                insert_new(target, key, value)?;
            }
        }
        _ => return Err(EvalError::NoSuchOverload),
    }
    Ok(Val::Map(Map::Owned(entries)))
}
