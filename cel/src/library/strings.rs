//! Functions of strings.

use super::{Outcome, format, int, list, string, text};
use crate::cost::{
    ActualCall, CallEstimate, CostEstimate, CostRule, EstimateCall, SizeEstimate, TRAVERSAL, rows, scaled,
};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Val;
use Type::{Int, String as Str};
use std::borrow::Cow;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    method(d, "charAt", "string_char_at_int", vec![Str, Int], Str, char_at);
    for (name, id, last) in [("indexOf", "index_of", false), ("lastIndexOf", "last_index_of", true)] {
        let find = move |args: &[Val<'_>]| index_of(args, last);
        let short = Overload::method(&format!("string_{id}_string"), [Str, Str], Int, move |args| {
            find(args).map(Val::Int)
        });
        d.add(name, short);
        let long = vec![Str, Str, Int];
        d.add(
            name,
            Overload::method(&format!("string_{id}_string_int"), long, Int, move |args| {
                find(args).map(Val::Int)
            }),
        );
        d.cost_all(name, rows::element_visits());
    }
    method(d, "lowerAscii", "string_lower_ascii", vec![Str], Str, |args| {
        text(string(args, 0)?.to_ascii_lowercase())
    });
    method(d, "upperAscii", "string_upper_ascii", vec![Str], Str, |args| {
        text(string(args, 0)?.to_ascii_uppercase())
    });
    method(d, "trim", "string_trim", vec![Str], Str, |args| text(string(args, 0)?.trim().to_owned()));
    method(d, "substring", "string_substring_int", vec![Str, Int], Str, substring);
    method(d, "substring", "string_substring_int_int", vec![Str, Int, Int], Str, substring);
    for name in ["lowerAscii", "upperAscii", "trim", "substring"] {
        d.cost_all(name, rows::target_traversal());
    }
    method(d, "replace", "string_replace_string_string", vec![Str, Str, Str], Str, replace);
    method(d, "replace", "string_replace_string_string_int", vec![Str, Str, Str, Int], Str, replace);
    d.cost_all("replace", CostRule::new(replacing, two_traversals));
    let texts = || Type::list(Str);
    method(d, "split", "string_split_string", vec![Str, Str], texts(), split);
    method(d, "split", "string_split_string_int", vec![Str, Str, Int], texts(), split);
    d.cost_all("split", CostRule::new(splitting, two_traversals));
    method(d, "join", "list_join", vec![texts()], Str, join);
    method(d, "join", "list_join_string", vec![texts(), Str], Str, join);
    d.cost_all("join", CostRule::new(joining, |call| Some(scaled(call.result.size(), 2.0 * TRAVERSAL))));
    let quoted = Overload::function("strings_quote", [Str], Str, |args| text(quote(string(args, 0)?)));
    d.add(
        "strings.quote",
        quoted.cost(rows::conversion(|size| {
            size.times(SizeEstimate { min: 1, max: 2 }).plus(SizeEstimate::fixed(2))
        })),
    );
    let formatted = Overload::method("string_format", [Str, Type::list(Type::Dyn)], Str, |args| {
        text(format::format(string(args, 0)?, list(args, 1)?)?)
    });
    d.add(
        "format",
        formatted.cost(CostRule::new(
            |call| Some(CallEstimate::of(call.target_size().cost(TRAVERSAL))),
            |call| Some(scaled(call.target_size(), TRAVERSAL)),
        )),
    );
}

fn method(
    d: &mut Declarations,
    name: &str,
    id: &str,
    args: Vec<Type>,
    result: Type,
    function: for<'a> fn(&[Val<'a>]) -> Outcome<'a>,
) {
    d.add(name, Overload::method(id, args, result, function));
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::other(format!("index out of range: {index}"))
}

/// The byte offset of a character; the length of the string for the index after the last character.
fn byte_at(text: &str, index: i64) -> Result<usize, EvalError> {
    let at = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let starts = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    starts.into_iter().nth(at).ok_or_else(|| out_of_range(index))
}

fn char_at<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (whole, index) = (string(args, 0)?, int(args, 1)?);
    let found = whole[byte_at(whole, index)?..].chars().next();
    text(found.map(String::from).unwrap_or_default())
}

/// The index of a substring in characters; -1 if the string lacks it.
fn index_of(args: &[Val<'_>], last: bool) -> Result<i64, EvalError> {
    let (whole, part) = (string(args, 0)?, string(args, 1)?);
    let length = whole.chars().count() as i64;
    let offset = match args.get(2) {
        Some(_) => Some(int(args, 2)?),
        None => None,
    };
    if let Some(offset) = offset.filter(|offset| *offset < 0) {
        return Err(out_of_range(offset));
    }
    if part.is_empty() {
        return Ok(offset.unwrap_or(if last { length } else { 0 }).min(length));
    }
    if offset.is_some_and(|offset| offset >= length) {
        return Ok(-1);
    }
    let found = if last {
        let end = offset.map_or(Ok(whole.len()), |offset| byte_at(whole, offset))?;
        // The substring may begin at the offset and extend beyond it.
        let reach = whole.len().min(end.saturating_add(part.len()));
        if offset.is_some() && whole.is_char_boundary(reach) {
            whole[..reach].rfind(part)
        } else {
            whole.match_indices(part).map(|(at, _)| at).take_while(|at| *at <= end).last()
        }
    } else {
        let from = byte_at(whole, offset.unwrap_or(0))?;
        whole[from..].find(part).map(|at| from + at)
    };
    Ok(found.map_or(-1, |at| whole[..at].chars().count() as i64))
}

fn substring<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (whole, start) = (string(args, 0)?, int(args, 1)?);
    if args.len() == 2 {
        return text(whole[byte_at(whole, start)?..].to_owned());
    }
    let end = int(args, 2)?;
    if start > end {
        return Err(EvalError::other(format!("invalid substring range. start: {start}, end: {end}")));
    }
    text(whole[byte_at(whole, start)?..byte_at(whole, end)?].to_owned())
}

fn replace<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (whole, old, new) = (string(args, 0)?, string(args, 1)?, string(args, 2)?);
    let count = if args.len() == 4 { int(args, 3)? } else { -1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let most = whole.chars().count().saturating_add(1).min(count);
    if most.saturating_mul(new.len()) > crate::limits::STRING_BYTES
        && whole.matches(old).take(count).count().saturating_mul(new.len()) > crate::limits::STRING_BYTES
    {
        return Err(EvalError::other("string is too long"));
    }
    text(whole.replacen(old, new, count))
}

/// Counts two traversals of the target.
fn two_traversals(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.target_size(), 2.0 * TRAVERSAL))
}

fn replacing(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let (whole, old, new) = (call.target_size(), call.arg_size(0), call.arg_size(1));
    let times = |size: u64, old: u64| (size as f64 / old as f64).ceil() as u64;
    // The result consists of replacements and of the characters that stay: the most of both, then the least of both.
    let (most, left) = if old.min == 0 {
        (whole.max.saturating_add(1), whole.max)
    } else if new.max <= old.min {
        (0, whole.max)
    } else {
        (times(whole.max, old.min), 0)
    };
    let (least, kept) = if old.max == 0 {
        (whole.min.saturating_add(1), whole.min)
    } else if old.max <= new.min {
        (0, whole.min)
    } else {
        (times(whole.min, old.max), 0)
    };
    let replaced = SizeEstimate { min: least, max: most }.times(new);
    let size = replaced.plus(SizeEstimate { min: kept, max: left });
    Some(CallEstimate::sized(whole.cost(2.0 * TRAVERSAL), size))
}

fn split<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (whole, separator) = (string(args, 0)?, string(args, 1)?);
    let count = if args.len() == 3 { int(args, 2)? } else { -1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let parts: Vec<&str> = match count {
        0 => Vec::new(),
        _ if separator.is_empty() => characters(whole, count),
        _ => whole.splitn(count, separator).collect(),
    };
    Ok(Val::list(parts.into_iter().map(Val::string).collect()))
}

/// Splits a string into characters; the last of `count` parts is the rest.
fn characters(whole: &str, count: usize) -> Vec<&str> {
    let starts: Vec<usize> = whole.char_indices().map(|(at, _)| at).take(count).collect();
    let ends = starts.iter().skip(1).copied().chain([whole.len()]);
    starts.iter().zip(ends).map(|(start, end)| &whole[*start..end]).collect()
}

fn splitting(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let size = call.target_size();
    let max = call.args.get(1).and_then(|count| count.int_literal).map_or(size.max, |count| count as u64);
    Some(CallEstimate::sized(size.cost(2.0 * TRAVERSAL), SizeEstimate { min: 0, max }))
}

fn join<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let separator = if args.len() == 2 { string(args, 1)? } else { "" };
    let mut joined = String::new();
    for (index, item) in list(args, 0)?.iter().enumerate() {
        let item = item?;
        let part = item.as_str().ok_or_else(|| EvalError::other("join: invalid input"))?;
        joined.push_str(if index > 0 { separator } else { "" });
        joined.push_str(part);
        if joined.len() > crate::limits::STRING_BYTES {
            return Err(EvalError::other("string is too long"));
        }
    }
    text(joined)
}

fn joining(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let count = target.size();
    let elements = call.element(target).map(|(_, size)| count.times(size)).unwrap_or(SizeEstimate::fixed(0));
    let separators = SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    let size = match call.args.first() {
        Some(separator) => elements.plus(separator.size().times(separators)),
        None => elements,
    };
    Some(CallEstimate { cost: CostEstimate::fixed(0).plus(size.cost(TRAVERSAL)), result: Some(size) })
}

/// The string as a literal of the language, with quotes and escapes.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let escaped = match c {
            '\u{7}' => Cow::Borrowed("\\a"),
            '\u{8}' => Cow::Borrowed("\\b"),
            '\u{c}' => Cow::Borrowed("\\f"),
            '\n' => Cow::Borrowed("\\n"),
            '\r' => Cow::Borrowed("\\r"),
            '\t' => Cow::Borrowed("\\t"),
            '\u{b}' => Cow::Borrowed("\\v"),
            '\\' => Cow::Borrowed("\\\\"),
            '"' => Cow::Borrowed("\\\""),
            other => Cow::Owned(other.to_string()),
        };
        quoted.push_str(&escaped);
    }
    quoted.push('"');
    quoted
}
