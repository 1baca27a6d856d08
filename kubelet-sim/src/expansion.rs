//! Expansion of `$(NAME)` in commands, arguments, variables and paths, as Kubernetes does it: a port of `Expand` in its forked package
//! `expansion`, with a bound on the result. Pure.

use crate::limits::EXPANDED_BYTES;
use std::borrow::Cow;

/// The expanded text would be longer than [`EXPANDED_BYTES`]; it was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Replaces `$(NAME)` by the value of the variable and `$$` by `$`. References to unknown variables stay unchanged. Takes time in
/// proportion to the text and its values.
pub(crate) fn expand<'v>(
    text: &str,
    mut value: impl FnMut(&str) -> Option<Cow<'v, str>>,
) -> Result<String, TooLong> {
    let mut out = String::new();
    // Whether the rest may have a closing parenthesis: it is searched in vain once.
    let (mut rest, mut may_close) = (text, true);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = if let Some(rest) = after.strip_prefix('$') {
            out.push('$');
            rest
        } else if let Some(inside) = after.strip_prefix('(') {
            match if may_close { inside.split_once(')') } else { None } {
                Some((name, rest)) => {
                    match value(name) {
                        Some(value) => out.push_str(&value),
                        None => out.extend(["$(", name, ")"]),
                    }
                    rest
                }
                None => {
                    may_close = false;
                    out.push_str("$(");
                    inside
                }
            }
        } else {
            out.push('$');
            after
        };
        if out.len() > EXPANDED_BYTES {
            return Err(TooLong);
        }
    }
    out.push_str(rest);
    if out.len() > EXPANDED_BYTES { Err(TooLong) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_values_are_filled_in_as_kubernetes_does() {
        let value = |name: &str| (name == "A").then_some(Cow::Borrowed("1"));
        for (text, expected) in [
            ("x$(A)y", "x1y"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$A 5$", "$A 5$"),
            ("$(A", "$(A"),
            ("$($(A))", "$($(A))"),
            ("$(A $(A)", "$(A $(A)"),
            ("$$$(A)$", "$1$"),
        ] {
            assert_eq!(expand(text, value).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn long_texts_are_refused_and_take_linear_time() {
        let open = "$(".repeat(EXPANDED_BYTES / 2);
        assert_eq!(expand(&open, |_| None).as_deref(), Ok(open.as_str()));
        assert_eq!(expand(&"$(".repeat(2_000_000), |_| None), Err(TooLong));
        assert_eq!(expand(&format!("{})", "$(".repeat(EXPANDED_BYTES)), |_| None), Err(TooLong));
        let long = "x".repeat(EXPANDED_BYTES / 2 + 1);
        assert_eq!(expand("$(A)$(A)", |_| Some(Cow::Borrowed(&long))), Err(TooLong));
    }
}
