//! `$((…))`: whole numbers with `+`, `-`, `*`, `/`, `%`, parentheses and variables. Overflow wraps, as in a real shell.

use crate::limits::NESTED_COMMANDS;

/// The value of an expression.
///
/// # Errors
/// The error, as a shell prints it.
pub(super) fn evaluate(text: &str, variable: &dyn Fn(&str) -> String) -> Result<i64, String> {
    let mut reader = Arithmetic { rest: text, variable, depth: 0 };
    let value = reader.sum()?;
    reader.skip();
    if reader.rest.is_empty() { Ok(value) } else { Err(unknown(reader.rest)) }
}

fn unknown(rest: &str) -> String {
    format!("the simulated shell does not know the arithmetic {rest:?}")
}

struct Arithmetic<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> String,
    depth: usize,
}

impl Arithmetic<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn operator(&mut self, operators: &[char]) -> Option<char> {
        self.skip();
        let found = self.rest.chars().next().filter(|c| operators.contains(c))?;
        self.rest = &self.rest[1..];
        Some(found)
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&['+', '-']) {
            let other = self.product()?;
            value = if operator == '+' { value.wrapping_add(other) } else { value.wrapping_sub(other) };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.number()?;
        while let Some(operator) = self.operator(&['*', '/', '%']) {
            let other = self.number()?;
            value = match operator {
                '*' => value.wrapping_mul(other),
                _ if other == 0 => return Err("divide by zero".to_owned()),
                '/' => value.wrapping_div(other),
                _ => value.wrapping_rem(other),
            };
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > NESTED_COMMANDS {
            return Err("too many nested parentheses".to_owned());
        }
        let value = match self.operator(&['-', '+', '(']) {
            Some('-') => self.number()?.wrapping_neg(),
            Some('+') => self.number()?,
            Some(_) => {
                let value = self.sum()?;
                self.operator(&[')']).ok_or("missing \")\"")?;
                value
            }
            None => self.operand()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn operand(&mut self) -> Result<i64, String> {
        let text = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let length = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        if word.is_empty() {
            return Err(unknown(self.rest));
        }
        self.rest = rest;
        let named = !word.starts_with(|c: char| c.is_ascii_digit());
        let value = if named { (self.variable)(word) } else { word.to_owned() };
        match value.trim() {
            "" => Ok(0),
            number => number.parse().map_err(|_| format!("bad number {number:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_values_of_a_shell() {
        let variable = |name: &str| if name == "i" { "4".to_owned() } else { String::new() };
        for (text, value) in [
            ("1 + 2 * 3", Ok(7)),
            ("(1+2)*3", Ok(9)),
            ("i + 1", Ok(5)),
            ("$i-5", Ok(-1)),
            ("-7 % 4", Ok(-3)),
            ("none", Ok(0)),
            ("9223372036854775807 + 1", Ok(i64::MIN)),
            ("1 / 0", Err("divide by zero".to_owned())),
            ("(1", Err("missing \")\"".to_owned())),
            ("i++", Err(unknown(""))),
            ("1 << 2", Err(unknown("<< 2"))),
        ] {
            assert_eq!(evaluate(text, &variable), value, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_expression_panics(text in "[-+*/%()0-9a $]{0,40}") {
            let _ = evaluate(&text, &|_| String::new());
        }
    }
}
