//! `$((…))`: whole numbers with all operators of C, variables and assignments. Overflow wraps, as in a real shell.

use crate::limits::NESTED_EXPRESSIONS;
use std::collections::BTreeMap;

/// The value of an expression, and the variables that it has assigned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evaluated {
    pub(super) value: i64,
    pub(super) assigned: Vec<(String, i64)>,
}

/// The value of an expression. An empty one is 0.
///
/// # Errors
/// The error, as a shell prints it.
pub(super) fn evaluate(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Evaluated, String> {
    let mut assigned = BTreeMap::new();
    let value = evaluate_at(text, variable, &mut assigned, 0)?;
    Ok(Evaluated { value, assigned: assigned.into_iter().collect() })
}

fn evaluate_at(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    assigned: &mut BTreeMap<String, i64>,
    depth: usize,
) -> Result<i64, String> {
    let mut reader = Arithmetic { rest: text, variable, assigned, depth, skipping: 0 };
    reader.skip_blanks();
    if reader.rest.is_empty() {
        return Ok(0);
    }
    let value = reader.comma(depth)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(ERROR.to_owned()) }
}

const ERROR: &str = "arithmetic syntax error";

struct Arithmetic<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    assigned: &'a mut BTreeMap<String, i64>,
    depth: usize,
    /// Above 0 in a part whose value is not needed: nothing is assigned, and division by zero is none.
    skipping: usize,
}

/// Binary operators from the weakest to the strongest.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Operators that end where another one would continue, so that `<` is not found in `<<`.
const LONGER: [&str; 19] = [
    "<<=", ">>=", "**", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=",
    "|=", "^=",
];

impl Arithmetic<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '"');
    }

    /// Passes over one of the operators if it comes next.
    fn operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        self.skip_blanks();
        let longest = LONGER.iter().find(|operator| self.rest.starts_with(**operator));
        let found = operators.iter().find(|operator| {
            self.rest.starts_with(**operator) && longest.is_none_or(|longest| longest.len() <= operator.len())
        })?;
        self.rest = &self.rest[found.len()..];
        self.skip_blanks();
        Some(found)
    }

    fn comma(&mut self, depth: usize) -> Result<i64, String> {
        let mut value = self.assignment(depth)?;
        while self.operator(&[","]).is_some() {
            value = self.assignment(depth)?;
        }
        Ok(value)
    }

    fn assignment(&mut self, depth: usize) -> Result<i64, String> {
        if depth > NESTED_EXPRESSIONS {
            return Err("expression is nested too deeply".to_owned());
        }
        self.skip_blanks();
        let start = self.rest;
        if let Some(name) = self.name(depth)? {
            let operators = ["<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "="];
            if let Some(operator) = self.operator(&operators) {
                let right = self.assignment(depth + 1)?;
                let value = match operator.strip_suffix('=').unwrap_or_default() {
                    "" => right,
                    operator => {
                        let left = self.value_of(&name)?;
                        self.apply(operator, left, right)?
                    }
                };
                self.assign(name, value);
                return Ok(value);
            }
        }
        self.rest = start;
        self.ternary(depth)
    }

    fn assign(&mut self, name: String, value: i64) {
        if self.skipping == 0 {
            self.assigned.insert(name, value);
        }
    }

    fn ternary(&mut self, depth: usize) -> Result<i64, String> {
        let condition = self.binary(depth, 0)?;
        if self.operator(&["?"]).is_none() {
            return Ok(condition);
        }
        self.skipping += usize::from(condition == 0);
        let first = self.assignment(depth + 1)?;
        self.skipping -= usize::from(condition == 0);
        self.operator(&[":"]).ok_or(ERROR)?;
        self.skipping += usize::from(condition != 0);
        let second = self.assignment(depth + 1)?;
        self.skipping -= usize::from(condition != 0);
        Ok(if condition == 0 { second } else { first })
    }

    fn binary(&mut self, depth: usize, level: usize) -> Result<i64, String> {
        let Some(operators) = LEVELS.get(level) else { return self.power(depth) };
        let mut value = self.binary(depth, level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let skips = (operator == "&&" && value == 0) || (operator == "||" && value != 0);
            self.skipping += usize::from(skips);
            let right = self.binary(depth, level + 1)?;
            self.skipping -= usize::from(skips);
            value = self.apply(operator, value, right)?;
        }
        Ok(value)
    }

    fn power(&mut self, depth: usize) -> Result<i64, String> {
        let base = self.unary(depth)?;
        if self.operator(&["**"]).is_none() {
            return Ok(base);
        }
        if depth > NESTED_EXPRESSIONS {
            return Err("expression is nested too deeply".to_owned());
        }
        let exponent = self.power(depth + 1)?;
        match u32::try_from(exponent) {
            Ok(exponent) => Ok(base.wrapping_pow(exponent)),
            Err(_) => Err("exponent less than 0".to_owned()),
        }
    }

    fn unary(&mut self, depth: usize) -> Result<i64, String> {
        if depth > NESTED_EXPRESSIONS {
            return Err("expression is nested too deeply".to_owned());
        }
        self.skip_blanks();
        for step in ["++", "--"] {
            if let Some(rest) = self.rest.strip_prefix(step) {
                let before = std::mem::replace(&mut self.rest, rest);
                self.skip_blanks();
                if let Some(name) = self.name(depth)? {
                    let by = if step == "++" { 1 } else { -1 };
                    let value = self.value_of(&name)?.wrapping_add(by);
                    self.assign(name, value);
                    return Ok(value);
                }
                self.rest = before;
            }
        }
        let Some(c) = self.rest.chars().next() else { return Err(ERROR.to_owned()) };
        if !"-+!~(".contains(c) {
            return self.operand(depth);
        }
        self.rest = &self.rest[1..];
        match c {
            '-' => Ok(self.unary(depth + 1)?.wrapping_neg()),
            '+' => self.unary(depth + 1),
            '!' => Ok(i64::from(self.unary(depth + 1)? == 0)),
            '~' => Ok(!self.unary(depth + 1)?),
            _ => {
                let value = self.comma(depth + 1)?;
                self.operator(&[")"]).ok_or(ERROR)?;
                Ok(value)
            }
        }
    }

    /// The name that comes next, with its subscript.
    fn name(&mut self, depth: usize) -> Result<Option<String>, String> {
        if !self.rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Ok(None);
        }
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.rest.starts_with('[') {
            self.rest = &self.rest[1..];
            let index = self.comma(depth + 1)?;
            self.operator(&["]"]).ok_or(ERROR)?;
            return Ok(Some(format!("{name}[{index}]")));
        }
        Ok(Some(name.to_owned()))
    }

    fn operand(&mut self, depth: usize) -> Result<i64, String> {
        if let Some(name) = self.name(depth)? {
            let value = self.value_of(&name)?;
            self.skip_blanks();
            for (step, by) in [("++", 1), ("--", -1)] {
                if let Some(rest) = self.rest.strip_prefix(step) {
                    self.rest = rest;
                    self.assign(name, value.wrapping_add(by));
                    break;
                }
            }
            return Ok(value);
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '#' | '_' | '@')))
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        number(digits).ok_or_else(|| ERROR.to_owned())
    }

    fn value_of(&mut self, name: &str) -> Result<i64, String> {
        if let Some(value) = self.assigned.get(name) {
            return Ok(*value);
        }
        let Some(text) = (self.variable)(name) else { return Ok(0) };
        let trimmed = text.trim();
        match number(trimmed) {
            Some(value) => Ok(value),
            None if trimmed.is_empty() => Ok(0),
            None if self.depth >= NESTED_EXPRESSIONS => Err("expression recursion loop detected".to_owned()),
            None => evaluate_at(trimmed, self.variable, self.assigned, self.depth + 1),
        }
    }

    fn apply(&self, operator: &str, left: i64, right: i64) -> Result<i64, String> {
        let shift = u32::try_from(right & 63).unwrap_or(0);
        Ok(match operator {
            "||" => i64::from(left != 0 || right != 0),
            "&&" => i64::from(left != 0 && right != 0),
            "|" => left | right,
            "^" => left ^ right,
            "&" => left & right,
            "==" => i64::from(left == right),
            "!=" => i64::from(left != right),
            "<=" => i64::from(left <= right),
            ">=" => i64::from(left >= right),
            "<" => i64::from(left < right),
            ">" => i64::from(left > right),
            "<<" => left.wrapping_shl(shift),
            ">>" => left.wrapping_shr(shift),
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "*" => left.wrapping_mul(right),
            _ if right == 0 && self.skipping > 0 => 0,
            _ if right == 0 => return Err("divide by zero".to_owned()),
            "/" => left.wrapping_div(right),
            _ => left.wrapping_rem(right),
        })
    }
}

/// A number in C's notation, or `base#digits`.
pub(super) fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let parsed = match digits.split_once('#') {
        Some((base, digits)) => {
            let base = base.parse::<u32>().ok().filter(|base| (2..=36).contains(base))?;
            i64::from_str_radix(digits, base).ok()
        }
        None if digits.starts_with("0x") || digits.starts_with("0X") => {
            u64::from_str_radix(&digits[2..], 16).ok().map(u64::cast_signed)
        }
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(&digits[1..], 8).ok(),
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok(),
        None => None,
    }?;
    Some(if negative { parsed.wrapping_neg() } else { parsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_values_of_a_shell() {
        let variable = |name: &str| match name {
            "i" => Some("4".to_owned()),
            "e" => Some("i + 1".to_owned()),
            "loop" => Some("loop".to_owned()),
            "a[2]" => Some("9".to_owned()),
            _ => None,
        };
        let error = || Err(ERROR.to_owned());
        for (text, value) in [
            ("1 + 2 * 3", Ok(7)),
            ("(1+2)*3", Ok(9)),
            ("i + 1", Ok(5)),
            ("-7 % 4", Ok(-3)),
            ("none", Ok(0)),
            ("", Ok(0)),
            ("9223372036854775807 + 1", Ok(i64::MIN)),
            ("1 / 0", Err("divide by zero".to_owned())),
            ("0 && 1 / 0", Ok(0)),
            ("(1", error()),
            ("1 +", error()),
            ("abc def", error()),
            ("1 << 2 | 1", Ok(5)),
            ("1 < 2 == 1", Ok(1)),
            ("i > 3 ? 10 : 20", Ok(10)),
            ("2 ** 3 ** 2", Ok(512)),
            ("0x1f + 010 + 2#101", Ok(44)),
            ("!0 + ~1", Ok(-1)),
            ("e * 2", Ok(10)),
            ("a[1+1]", Ok(9)),
            ("i & 6 ^ 1", Ok(5)),
            ("- - 3", Ok(3)),
            ("loop", Err("expression recursion loop detected".to_owned())),
        ] {
            assert_eq!(evaluate(text, &variable).map(|found| found.value), value, "{text}");
        }
    }

    #[test]
    fn assignments_are_returned_and_seen_by_later_parts() {
        let variable = |name: &str| (name == "i").then(|| "4".to_owned());
        for (text, value, assigned) in [
            ("i++ + ++i", 10, vec![("i", 6)]),
            ("x = i += 2, x * 2", 12, vec![("i", 6), ("x", 6)]),
            ("1 ? (a = 1) : (b = 2)", 1, vec![("a", 1)]),
            ("0 && (a = 1)", 0, vec![]),
        ] {
            let assigned = assigned.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(evaluate(text, &variable), Ok(Evaluated { value, assigned }), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for (open, close) in
            [("(", ")"), ("-", ""), ("!", ""), ("1?", ":0"), ("a[", "]"), ("a=", ""), ("1**", "")]
        {
            let text = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
            assert!(evaluate(&text, &|_| None).is_err(), "{open}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_expression_panics(text in "[-+*/%()0-9a $<>=&|^!~?:,]{0,40}") {
            let _ = evaluate(&text, &|_| Some("a+1".to_owned()));
        }
    }
}
