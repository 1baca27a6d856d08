//! Programs that compute numbers: `seq`, `expr`, `factor` and `shuf`.

use super::printf::conversion;
use super::{Outcome, Tool, ToolCall, plain, whole};
use crate::limits::NESTED_EXPRESSIONS;
use crate::shell::descriptor::next_random;
use crate::shell::memory::Buffer;
use crate::shell::regex::Regex;

pub(super) const TOOLS: &[Tool] = &[
    plain("seq", sequence),
    plain("expr", expression),
    plain("factor", factor),
    whole(
        "shuf",
        |arguments| {
            super::operands(arguments).is_empty()
                && !super::flag(arguments, 'i')
                && !super::flag(arguments, 'e')
        },
        shuffle,
    ),
];

/// The most lines of `seq`.
const SEQUENCE: f64 = 1_000_000.0;

fn sequence(call: &ToolCall<'_>) -> Outcome {
    let (mut separator, mut width, mut format, mut words) = ("\n".to_owned(), false, None, Vec::new());
    let mut rest = call.arguments().iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-w" => width = true,
            "-s" => separator = rest.next().cloned().unwrap_or_default(),
            word if word.starts_with("-s") => word[2..].clone_into(&mut separator),
            "-f" => format = rest.next().cloned(),
            word => words.push(word.to_owned()),
        }
    }
    let numbers: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
    let (first, step, last) = match numbers.as_deref() {
        Some([last]) => (1.0, 1.0, *last),
        Some([first, last]) => (*first, 1.0, *last),
        Some([first, step, last]) if *step != 0.0 => (*first, *step, *last),
        _ => return Outcome::fail(1, "seq: invalid number\n".to_owned()),
    };
    let places = words.iter().map(|word| word.split_once('.').map_or(0, |(_, places)| places.len())).max();
    let places = places.unwrap_or(0).min(30);
    let count = ((last - first) / step + 1e-9).floor();
    if !count.is_finite() || count < 0.0 {
        return Outcome::default();
    }
    let widest = match width {
        true => [first, last].map(|number| format!("{number:.places$}").len()).into_iter().max().unwrap_or(0),
        false => 0,
    };
    let mut out = Buffer::new(&call.env.bounds());
    let mut n = 0.0;
    while n <= count.min(SEQUENCE) {
        let number = first + n * step;
        let before: &[u8] = if n > 0.0 { separator.as_bytes() } else { b"" };
        let fits = out.push(before)
            && match &format {
                Some(format) => {
                    let (head, tail) = format.split_once('%').unwrap_or((format, "g"));
                    let (conversion, letter, tail) = conversion(tail, &mut || 0);
                    out.push(head.as_bytes())
                        && conversion.real(number, letter.unwrap_or('g'), &mut out)
                        && out.push(tail.as_bytes())
                }
                None => out.push(format!("{number:0widest$.places$}").as_bytes()),
            };
        if !fits {
            break;
        }
        n += 1.0;
    }
    out.push(b"\n");
    Outcome::reserved(out)
}

/// `expr`: strings and whole numbers.
fn expression(call: &ToolCall<'_>) -> Outcome {
    let words = call.arguments();
    let mut expr = Expr { call, words, at: 0 };
    if words.is_empty() {
        return Outcome::fail(2, "expr: too few arguments\n".to_owned());
    }
    match expr.level(0, 0) {
        Ok(value) if expr.at == words.len() => {
            let code = u8::from(value.is_empty() || value.parse() == Ok(0));
            Outcome { code, ..Outcome::text(format!("{value}\n")) }
        }
        Ok(_) => Outcome::fail(2, "expr: syntax error\n".to_owned()),
        Err(why) => Outcome::fail(2, format!("expr: {why}\n")),
    }
}

struct Expr<'a> {
    call: &'a ToolCall<'a>,
    words: &'a [String],
    at: usize,
}

/// The operators of `expr` from the weakest to the strongest.
const LEVELS: [&[&str]; 6] =
    [&["|"], &["&"], &["=", "==", "!=", "<", "<=", ">", ">="], &["+", "-"], &["*", "/", "%"], &[":"]];

impl Expr<'_> {
    fn next(&mut self) -> Result<String, String> {
        let word = self.words.get(self.at).cloned().ok_or("syntax error")?;
        self.at += 1;
        Ok(word)
    }

    fn level(&mut self, level: usize, depth: usize) -> Result<String, String> {
        let Some(operators) = LEVELS.get(level) else { return self.operand(depth) };
        let mut left = self.level(level + 1, depth)?;
        while let Some(operator) = self.words.get(self.at).filter(|word| operators.contains(&word.as_str())) {
            self.at += 1;
            let right = self.level(level + 1, depth)?;
            left = self.apply(&left, operator, &right)?;
        }
        Ok(left)
    }

    fn apply(&self, left: &str, operator: &str, right: &str) -> Result<String, String> {
        let is_null = |text: &str| text.is_empty() || text.parse() == Ok(0);
        let (a, b) = (left.parse::<i64>(), right.parse::<i64>());
        let numbers = || {
            Ok::<_, String>((
                a.clone().map_err(|_| "non-numeric argument")?,
                b.clone().map_err(|_| "non-numeric argument")?,
            ))
        };
        Ok(match operator {
            "|" => if is_null(left) { right } else { left }.to_owned(),
            "&" => if is_null(left) || is_null(right) { "0" } else { left }.to_owned(),
            ":" => return self.matched(left, right),
            "+" => numbers().map(|(a, b)| a.wrapping_add(b))?.to_string(),
            "-" => numbers().map(|(a, b)| a.wrapping_sub(b))?.to_string(),
            "*" => numbers().map(|(a, b)| a.wrapping_mul(b))?.to_string(),
            "/" | "%" => {
                let (a, b) = numbers()?;
                if b == 0 {
                    return Err("division by zero".to_owned());
                }
                if operator == "/" { a.wrapping_div(b) } else { a.wrapping_rem(b) }.to_string()
            }
            operator => {
                let order = match (&a, &b) {
                    (Ok(a), Ok(b)) => a.cmp(b),
                    _ => left.cmp(right),
                };
                let holds = match operator {
                    "=" | "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                };
                u8::from(holds).to_string()
            }
        })
    }

    /// The first group of a match at the start, or the length of the match.
    fn matched(&self, text: &str, pattern: &str) -> Result<String, String> {
        let regex = Regex::basic(&format!("^{pattern}"), false)?;
        let found = regex.find(text.as_bytes(), 0, true, &self.call.env.work);
        let part = |place: Option<(usize, usize)>| place.map_or("", |(from, to)| &text[from..to]);
        Ok(match (found, regex.groups()) {
            (None, 0) => "0".to_owned(),
            (None, _) => String::new(),
            (Some(groups), 0) => part(groups[0]).chars().count().to_string(),
            (Some(groups), _) => part(groups[1]).to_owned(),
        })
    }

    fn operand(&mut self, depth: usize) -> Result<String, String> {
        if depth > NESTED_EXPRESSIONS {
            return Err("too many parentheses".to_owned());
        }
        let word = self.next()?;
        let has_more = self.at < self.words.len();
        match word.as_str() {
            "(" if has_more => {
                let value = self.level(0, depth + 1)?;
                if self.next()? == ")" { Ok(value) } else { Err("syntax error".to_owned()) }
            }
            "length" if has_more => Ok(self.operand(depth + 1)?.chars().count().to_string()),
            "match" if self.at + 1 < self.words.len() => {
                let text = self.operand(depth + 1)?;
                let pattern = self.operand(depth + 1)?;
                self.matched(&text, &pattern)
            }
            "substr" if self.at + 2 < self.words.len() => {
                let text = self.operand(depth + 1)?;
                let mut number = || self.operand(depth + 1).map(|text| text.parse::<usize>().unwrap_or(0));
                let (start, length) = (number()?, number()?);
                if start == 0 {
                    return Ok(String::new());
                }
                Ok(text.chars().skip(start - 1).take(length).collect())
            }
            "index" if self.at + 1 < self.words.len() => {
                let text = self.operand(depth + 1)?;
                let set = self.operand(depth + 1)?;
                Ok(text.chars().position(|c| set.contains(c)).map_or(0, |at| at + 1).to_string())
            }
            _ => Ok(word),
        }
    }
}

/// The largest number that `factor` takes apart: its largest factor is found within a million divisions.
const FACTORED: u64 = 1_000_000_000_000;

fn factor(call: &ToolCall<'_>) -> Outcome {
    let mut text = String::new();
    for word in call.arguments() {
        let number =
            word.parse::<u64>().ok().filter(|number| *number <= FACTORED && call.env.work.spend(1_000_000));
        let Some(mut left) = number else {
            return Outcome::fail(1, format!("factor: invalid number '{word}'\n"));
        };
        text.push_str(&format!("{left}:"));
        let mut divisor = 2;
        while divisor * divisor <= left {
            if left % divisor == 0 {
                text.push_str(&format!(" {divisor}"));
                left /= divisor;
            } else {
                divisor += 1;
            }
        }
        if left > 1 {
            text.push_str(&format!(" {left}"));
        }
        text.push('\n');
    }
    Outcome::text(text)
}

/// `shuf`.
fn shuffle(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "n:i:ez", &[("head-count", 'n'), ("input-range", 'i')])
    {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("shuf: {why}\n")),
    };
    let mut err = String::new();
    let Some(bytes) = super::contents(
        call,
        if parsed.has('e') || parsed.has('i') { &[] } else { &parsed.operands },
        &mut err,
    ) else {
        return Outcome::fail(1, err);
    };
    let mut all: Vec<Vec<u8>> = match parsed.value('i').and_then(|range| range.split_once('-')) {
        Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if last.saturating_sub(first) < 100_000 => {
                (first..=last).map(|number| number.to_string().into_bytes()).collect()
            }
            _ => return Outcome::fail(1, "shuf: invalid range\n".to_owned()),
        },
        None if parsed.has('e') => parsed.operands.iter().map(|word| word.clone().into_bytes()).collect(),
        None => {
            let count = bytes.as_ref().iter().filter(|byte| **byte == b'\n').count() + 1;
            if call.env.memory.hold(count * 32 + bytes.len()).is_none() {
                return Outcome::fail(1, "shuf: out of memory\n".to_owned());
            }
            super::lines(bytes.as_ref()).map(<[u8]>::to_vec).collect()
        }
    };
    let mut seed = call.env.work.total();
    for at in (1..all.len()).rev() {
        let random = [(); 4].map(|()| next_random(&mut seed));
        all.swap(at, u32::from_le_bytes(random) as usize % (at + 1));
    }
    let most = parsed.value('n').and_then(|count| count.parse().ok()).unwrap_or(usize::MAX);
    let mut out = Buffer::new(&call.env.bounds());
    for line in all.iter().take(most) {
        if !(out.push(line) && out.push(b"\n")) {
            break;
        }
    }
    Outcome { err, ..Outcome::reserved(out) }
}
