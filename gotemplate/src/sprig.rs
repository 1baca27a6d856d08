//! A part of sprig: texts, lists, maps, defaults, arithmetic and encodings. Pure functions of values, so that templates give equal
//! texts for equal data: what reads clock, randomness or environment is not here.

use crate::builtin::pair;
use crate::limits::BYTES;
use crate::parser::Native;
use crate::print::display;
use crate::value::{int, is_true, kind, list, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Elements of a list that `until` makes.
const ELEMENTS: i64 = 100_000;

/// The functions by their names.
pub(crate) const TABLE: &[(&str, Native)] = &[
    // Defaults.
    ("default", |all| {
        let [otherwise, value] = pair(all)?;
        Ok((*if is_true(value) { value } else { otherwise }).clone())
    }),
    ("empty", |all| Ok(Value::Bool(!is_true(one(all)?)))),
    ("coalesce", |all| {
        Ok(all.iter().find(|value| is_true(value)).map_or(Value::Null, |value| (*value).clone()))
    }),
    ("ternary", |all| match all {
        [yes, no, test] => Ok((*if is_true(test) { yes } else { no }).clone()),
        _ => Err("it takes three arguments".to_owned()),
    }),
    // Texts.
    ("trim", |all| string(one(all)?, |text| text.trim().to_owned())),
    ("upper", |all| string(one(all)?, str::to_uppercase)),
    ("lower", |all| string(one(all)?, str::to_lowercase)),
    ("title", |all| string(one(all)?, title)),
    ("trimSuffix", |all| strings(all, |part, text| Value::from(text.strip_suffix(part).unwrap_or(text)))),
    ("trimPrefix", |all| strings(all, |part, text| Value::from(text.strip_prefix(part).unwrap_or(text)))),
    ("trimAll", |all| strings(all, |part, text| Value::from(text.trim_matches(|c: char| part.contains(c))))),
    ("contains", |all| strings(all, |part, text| Value::Bool(text.contains(part)))),
    ("hasPrefix", |all| strings(all, |part, text| Value::Bool(text.starts_with(part)))),
    ("hasSuffix", |all| strings(all, |part, text| Value::Bool(text.ends_with(part)))),
    ("splitList", |all| {
        strings(all, |part, text| match part {
            "" => text.chars().map(|c| Value::from(c.to_string())).collect(),
            part => text.split(part).map(Value::from).collect(),
        })
    }),
    ("replace", |all| match all {
        [old, new, whole] => {
            let (old, new, whole) = (text(old)?, text(new)?, text(whole)?);
            fits(whole.len().saturating_mul(new.len().max(1)))?;
            Ok(Value::String(whole.replace(old, new)))
        }
        _ => Err("it takes three arguments".to_owned()),
    }),
    ("repeat", |all| {
        let [count, whole] = pair(all)?;
        let count =
            usize::try_from(int(count)?).map_err(|_| "it cannot repeat a negative number of times")?;
        let whole = text(whole)?;
        fits(whole.len().saturating_mul(count))?;
        Ok(Value::String(whole.repeat(count)))
    }),
    ("trunc", |all| {
        let [count, whole] = pair(all)?;
        let (count, whole) = (int(count)?, text(whole)?);
        let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let cut = if count < 0 {
            whole.len().checked_sub(length).and_then(|from| whole.get(from..))
        } else {
            whole.get(..length)
        };
        Ok(Value::from(cut.unwrap_or(whole)))
    }),
    ("quote", |all| {
        let quoted = all.iter().filter(|value| !value.is_null());
        let quoted: Vec<_> = quoted.map(|value| Value::String(display(value)).to_string()).collect();
        Ok(Value::String(quoted.join(" ")))
    }),
    ("squote", |all| {
        let quoted = all.iter().filter(|value| !value.is_null());
        let quoted: Vec<_> = quoted.map(|value| format!("'{}'", display(value))).collect();
        Ok(Value::String(quoted.join(" ")))
    }),
    ("indent", |all| indented(all, "")),
    ("nindent", |all| indented(all, "\n")),
    ("toString", |all| Ok(Value::String(display(one(all)?)))),
    ("join", |all| {
        let [part, values] = pair(all)?;
        let values: Vec<_> = list(values)?.iter().map(display).collect();
        let part = text(part)?;
        fits(part.len().saturating_mul(values.len()))?;
        Ok(Value::String(values.join(part)))
    }),
    ("sortAlpha", |all| {
        let mut texts: Vec<_> = list(one(all)?)?.iter().map(display).collect();
        texts.sort();
        Ok(texts.into_iter().map(Value::String).collect())
    }),
    // Lists.
    ("list", |all| Ok(all.iter().map(|value| (*value).clone()).collect())),
    ("first", |all| Ok(list(one(all)?)?.first().cloned().unwrap_or_default())),
    ("last", |all| Ok(list(one(all)?)?.last().cloned().unwrap_or_default())),
    ("rest", |all| Ok(list(one(all)?)?.iter().skip(1).cloned().collect())),
    ("initial", |all| {
        let all = list(one(all)?)?;
        Ok(all[..all.len().saturating_sub(1)].iter().cloned().collect())
    }),
    ("append", |all| {
        let [before, value] = pair(all)?;
        Ok(list(before)?.iter().chain([*value]).cloned().collect())
    }),
    ("prepend", |all| {
        let [behind, value] = pair(all)?;
        Ok([*value].into_iter().chain(list(behind)?).cloned().collect())
    }),
    ("concat", |all| {
        let mut whole = Vec::new();
        for part in all {
            whole.extend_from_slice(list(part)?);
        }
        Ok(Value::Array(whole))
    }),
    ("has", |all| {
        let [value, all] = pair(all)?;
        Ok(Value::Bool(list(all)?.contains(value)))
    }),
    ("uniq", |all| {
        let mut seen = std::collections::BTreeSet::new();
        let all = list(one(all)?)?.iter();
        Ok(all.filter(|value| seen.insert(value.to_string())).cloned().collect())
    }),
    ("reverse", |all| Ok(list(one(all)?)?.iter().rev().cloned().collect())),
    ("until", |all| {
        let count = int(one(all)?)?;
        match count > ELEMENTS {
            true => Err(format!("{count} is more than {ELEMENTS}")),
            false => Ok((0..count).map(Value::from).collect()),
        }
    }),
    // Maps.
    ("dict", |all| {
        let mut members = Map::new();
        for pair in all.chunks(2) {
            let value = pair.get(1).map_or(Value::from(""), |value| (*value).clone());
            members.insert(display(pair[0]), value);
        }
        Ok(Value::Object(members))
    }),
    ("get", |all| {
        let [members, name] = pair(all)?;
        Ok(map(members)?.get(text(name)?).cloned().unwrap_or_else(|| Value::from("")))
    }),
    ("hasKey", |all| {
        let [members, name] = pair(all)?;
        Ok(Value::Bool(map(members)?.contains_key(text(name)?)))
    }),
    ("keys", |all| Ok(map(one(all)?)?.keys().map(|name| Value::from(&**name)).collect())),
    ("values", |all| Ok(map(one(all)?)?.values().cloned().collect())),
    // Numbers.
    ("add", |all| folded(all, 0, i64::checked_add)),
    ("add1", |all| folded(all, 1, i64::checked_add)),
    ("mul", |all| folded(all, 1, i64::checked_mul)),
    ("sub", |all| two(all, i64::checked_sub)),
    ("div", |all| two(all, i64::checked_div)),
    ("mod", |all| two(all, i64::checked_rem)),
    ("max", |all| numbers(all).map(|all| Value::from(all.into_iter().max().unwrap_or(0)))),
    ("min", |all| numbers(all).map(|all| Value::from(all.into_iter().min().unwrap_or(0)))),
    ("int", |all| Ok(Value::from(number(one(all)?)))),
    ("int64", |all| Ok(Value::from(number(one(all)?)))),
    // Encodings.
    ("toJson", |all| Ok(Value::String(one(all)?.to_string()))),
    ("fromJson", |all| Ok(serde_json::from_str(text(one(all)?)?).unwrap_or_default())),
    ("b64enc", |all| Ok(Value::String(STANDARD.encode(text(one(all)?)?)))),
    ("b64dec", |all| {
        let bytes = STANDARD.decode(text(one(all)?)?).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map(Value::String).map_err(|error| error.to_string())
    }),
];

fn one<'v>(arguments: &[&'v Value]) -> Result<&'v Value, String> {
    match arguments {
        [value] => Ok(value),
        _ => Err(format!("it takes one argument, not {}", arguments.len())),
    }
}

fn map(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{} is not a map", kind(value)))
}

fn string(value: &Value, change: impl Fn(&str) -> String) -> Result<Value, String> {
    Ok(Value::String(change(text(value)?)))
}

/// A function of two texts, the part first, as sprig has them for pipelines.
fn strings(arguments: &[&Value], of: impl Fn(&str, &str) -> Value) -> Result<Value, String> {
    let [part, whole] = pair(arguments)?;
    Ok(of(text(part)?, text(whole)?))
}

fn title(text: &str) -> String {
    let mut is_begin = true;
    let capital = |c: char| {
        let begins = std::mem::replace(&mut is_begin, c.is_whitespace());
        if begins { c.to_uppercase().next().unwrap_or(c) } else { c }
    };
    text.chars().map(capital).collect()
}

/// Refuses a text before it is made.
fn fits(bytes: usize) -> Result<(), String> {
    match bytes > BYTES {
        true => Err(format!("the text may be larger than {BYTES} bytes")),
        false => Ok(()),
    }
}

fn indented(arguments: &[&Value], before: &str) -> Result<Value, String> {
    let [spaces, whole] = pair(arguments)?;
    let spaces = usize::try_from(int(spaces)?).map_err(|_| "it cannot indent by a negative number")?;
    let whole = text(whole)?;
    fits(spaces.saturating_mul(1 + whole.matches('\n').count()))?;
    let pad = " ".repeat(spaces);
    Ok(Value::String(format!("{before}{pad}{}", whole.replace('\n', &format!("\n{pad}")))))
}

/// A number as sprig reads it: texts, too; what is none is zero.
fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim().parse().unwrap_or(0),
        Value::Bool(value) => i64::from(*value),
        other => int(other).unwrap_or(0),
    }
}

fn numbers(arguments: &[&Value]) -> Result<Vec<i64>, String> {
    match arguments {
        [] => Err("it needs arguments".to_owned()),
        all => Ok(all.iter().map(|value| number(value)).collect()),
    }
}

fn folded(arguments: &[&Value], begin: i64, combine: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let sum = numbers(arguments)?.into_iter().try_fold(begin, combine);
    sum.map(Value::from).ok_or_else(|| "the number is too large".to_owned())
}

fn two(arguments: &[&Value], combine: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    let [one, two] = pair(arguments)?;
    let result = combine(number(one), number(two));
    result.map(Value::from).ok_or_else(|| "there is no such number".to_owned())
}
