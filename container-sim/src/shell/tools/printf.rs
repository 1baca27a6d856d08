//! `printf`: the format repeats while arguments remain.

use super::Outcome;
use crate::limits::FIELD_WIDTH;
use crate::shell::arithmetic;
use crate::shell::env::Env;
use crate::shell::escape::{Escapes, escape, replaced};
use crate::shell::memory::Buffer;

/// A conversion: `%-5.2f`.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shell) struct Conversion {
    pub(in crate::shell) left: bool,
    pub(in crate::shell) zeros: bool,
    pub(in crate::shell) plus: bool,
    pub(in crate::shell) blank: bool,
    pub(in crate::shell) alternative: bool,
    pub(in crate::shell) width: usize,
    pub(in crate::shell) precision: Option<usize>,
}

impl Conversion {
    /// A text in its field. The field has at most [`FIELD_WIDTH`] characters.
    pub(in crate::shell) fn text(&self, text: &str, out: &mut Buffer) -> bool {
        let cut: String = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        self.padded(&cut, out)
    }

    fn padded(&self, text: &str, out: &mut Buffer) -> bool {
        let missing = self.width.min(FIELD_WIDTH).saturating_sub(text.chars().count());
        let mut pad = |count: usize| (0..count).all(|_| out.push(b" "));
        if !self.left && !pad(missing) {
            return false;
        }
        out.push(text.as_bytes()) && (!self.left || (0..missing).all(|_| out.push(b" ")))
    }

    /// Digits with their sign, filled with zeros or blanks.
    fn digits(&self, sign: &str, digits: &str, out: &mut Buffer) -> bool {
        let room = self.width.min(FIELD_WIDTH);
        let least = self.precision.unwrap_or(0).min(FIELD_WIDTH);
        let zeros = match self.zeros && !self.left && self.precision.is_none() {
            true => room.saturating_sub(sign.len() + digits.len()),
            false => least.saturating_sub(digits.len()),
        };
        let text = format!("{sign}{:0>width$}", digits, width = zeros + digits.len());
        self.padded(&text, out)
    }

    /// A whole number by `d`, `i`, `u`, `o`, `x` or `X`.
    pub(in crate::shell) fn whole(&self, number: i64, letter: char, out: &mut Buffer) -> bool {
        match letter {
            'd' | 'i' => {
                let sign = match () {
                    () if number < 0 => "-",
                    () if self.plus => "+",
                    () if self.blank => " ",
                    () => "",
                };
                self.digits(sign, &number.unsigned_abs().to_string(), out)
            }
            letter => {
                let number = number.cast_unsigned();
                let (sign, digits) = match letter {
                    'o' => (if self.alternative { "0" } else { "" }, format!("{number:o}")),
                    'x' => (if self.alternative && number > 0 { "0x" } else { "" }, format!("{number:x}")),
                    'X' => (if self.alternative && number > 0 { "0X" } else { "" }, format!("{number:X}")),
                    _ => ("", number.to_string()),
                };
                self.digits(sign, &digits, out)
            }
        }
    }

    /// A number with a fraction by `e`, `f` or `g`.
    pub(in crate::shell) fn real(&self, number: f64, letter: char, out: &mut Buffer) -> bool {
        let precision = self.precision.unwrap_or(6).min(300);
        let sign = match () {
            () if number.is_sign_negative() && !number.is_nan() => "-",
            () if self.plus => "+",
            () if self.blank => " ",
            () => "",
        };
        let digits = match () {
            () if number.is_nan() => "nan".to_owned(),
            () if number.is_infinite() => "inf".to_owned(),
            () => real_digits(number.abs(), letter.to_ascii_lowercase(), precision),
        };
        let digits = if letter.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        Self { precision: None, ..*self }.digits(sign, &digits, out)
    }
}

fn real_digits(number: f64, letter: char, precision: usize) -> String {
    let exponential = |precision: usize| {
        let text = format!("{number:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        (digits.to_owned(), exponent, format!("e{sign}{:02}", exponent.abs()))
    };
    let stripped = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match letter {
        'e' => {
            let (digits, _, exponent) = exponential(precision);
            format!("{digits}{exponent}")
        }
        'g' => {
            let precision = precision.max(1);
            let (digits, exponent, shown) = exponential(precision - 1);
            let most = i32::try_from(precision).unwrap_or(i32::MAX);
            if exponent < -4 || exponent >= most {
                return format!("{}{shown}", stripped(&digits));
            }
            let places = usize::try_from(most - 1 - exponent).unwrap_or(0);
            stripped(&format!("{number:.places$}"))
        }
        _ => format!("{number:.precision$}"),
    }
}

/// Reads flags, width and precision behind `%`. `*` takes its number from `star`. Returns the conversion, its letter, and the rest.
pub(in crate::shell) fn conversion<'a>(
    text: &'a str,
    star: &mut dyn FnMut() -> i64,
) -> (Conversion, Option<char>, &'a str) {
    let mut found = Conversion::default();
    let mut rest = text;
    loop {
        match rest.chars().next() {
            Some('-') => found.left = true,
            Some('0') => found.zeros = true,
            Some('+') => found.plus = true,
            Some(' ') => found.blank = true,
            Some('#') => found.alternative = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let mut number = |rest: &mut &str| -> usize {
        if let Some(behind) = rest.strip_prefix('*') {
            *rest = behind;
            let given = star();
            if given < 0 {
                found.left = true;
            }
            return usize::try_from(given.unsigned_abs()).unwrap_or(FIELD_WIDTH).min(FIELD_WIDTH);
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (text, behind) = rest.split_at(digits);
        *rest = behind;
        if text.is_empty() { 0 } else { text.parse::<usize>().unwrap_or(FIELD_WIDTH).min(FIELD_WIDTH) }
    };
    let width = number(&mut rest);
    let mut precision = None;
    if let Some(behind) = rest.strip_prefix('.') {
        rest = behind;
        precision = Some(number(&mut rest));
    }
    (found.width, found.precision) = (width, precision);
    rest = rest.trim_start_matches(['l', 'h', 'j', 'z', 'L', 'q', 't']);
    let letter = rest.chars().next();
    (found, letter, &rest[letter.map_or(0, char::len_utf8)..])
}

/// Runs `printf`; `name` is what errors begin with.
pub(in crate::shell) fn run(env: &Env, name: &str, arguments: &[String]) -> Outcome {
    let arguments =
        if arguments.first().is_some_and(|word| word == "--") { &arguments[1..] } else { arguments };
    let Some((format, values)) = arguments.split_first() else {
        return Outcome::fail(2, "printf: usage: printf format [arguments]\n".to_owned());
    };
    let mut printer =
        Printer { out: Buffer::new(&env.bounds()), values, err: String::new(), code: 0, name, ended: false };
    loop {
        let before = printer.values.len();
        if !printer.format(format) || printer.ended {
            break;
        }
        if printer.values.is_empty() || printer.values.len() == before || !env.runs() {
            break;
        }
    }
    Outcome { err: printer.err, code: printer.code, ..Outcome::reserved(printer.out) }
}

struct Printer<'a> {
    out: Buffer,
    values: &'a [String],
    err: String,
    code: u8,
    name: &'a str,
    ended: bool,
}

impl Printer<'_> {
    fn value(&mut self) -> Option<String> {
        let (first, rest) = self.values.split_first()?;
        self.values = rest;
        Some(first.clone())
    }

    fn number(&mut self) -> i64 {
        let Some(text) = self.value() else { return 0 };
        if let Some(c) = text.strip_prefix(['\'', '"']).and_then(|text| text.chars().next()) {
            return i64::from(u32::from(c));
        }
        let trimmed = text.trim_start().trim_start_matches('+');
        if trimmed.is_empty() {
            return 0;
        }
        arithmetic::number(trimmed).unwrap_or_else(|| {
            self.fail(&text);
            let digits: String = trimmed
                .chars()
                .enumerate()
                .take_while(|(at, c)| c.is_ascii_digit() || (*at == 0 && *c == '-'))
                .map(|(_, c)| c)
                .collect();
            digits.parse().unwrap_or(0)
        })
    }

    fn fail(&mut self, text: &str) {
        self.err.push_str(&format!("{}: invalid number '{text}'\n", self.name));
        self.code = 1;
    }

    /// Writes the format once. Returns false if the output must end.
    fn format(&mut self, format: &str) -> bool {
        let mut rest = format;
        while !rest.is_empty() && !self.ended {
            let plain = rest.find(['\\', '%']).unwrap_or(rest.len());
            if plain > 0 {
                if !self.out.push(&rest.as_bytes()[..plain]) {
                    return false;
                }
                rest = &rest[plain..];
                continue;
            }
            if rest.starts_with('\\') {
                if rest[1..].starts_with('c') {
                    self.ended = true;
                    return true;
                }
                let (bytes, length) =
                    escape(&rest.as_bytes()[1..], Escapes::Format).unwrap_or((b"\\".to_vec(), 0));
                if !self.out.push(&bytes) {
                    return false;
                }
                rest = &rest[1 + length..];
                continue;
            }
            let mut stars = Vec::new();
            let behind = &rest[1..];
            let wanted =
                behind.split(|c: char| c.is_ascii_alphabetic() || c == '%').next().unwrap_or_default();
            for _ in 0..wanted.matches('*').count() {
                stars.push(self.number());
            }
            let mut stars = stars.into_iter();
            let (conversion, letter, behind) = conversion(behind, &mut || stars.next().unwrap_or(0));
            if !self.convert(conversion, letter, rest) {
                return false;
            }
            rest = behind;
        }
        true
    }

    fn convert(&mut self, conversion: Conversion, letter: Option<char>, rest: &str) -> bool {
        match letter {
            Some('%') => self.out.push(b"%"),
            Some('s') => {
                let text = self.value().unwrap_or_default();
                conversion.text(&text, &mut self.out)
            }
            Some('b') => {
                let text = self.value().unwrap_or_default();
                let (bytes, ended) = replaced(&text, Escapes::Echo);
                self.ended = ended;
                if conversion.width == 0 && conversion.precision.is_none() {
                    return self.out.push(&bytes);
                }
                conversion.text(&String::from_utf8_lossy(&bytes), &mut self.out)
            }
            Some('c') => {
                let text: String = self.value().unwrap_or_default().chars().take(1).collect();
                conversion.text(&text, &mut self.out)
            }
            Some(letter @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X')) => {
                let number = self.number();
                conversion.whole(number, letter, &mut self.out)
            }
            Some(letter @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')) => {
                let text = self.value().unwrap_or_default();
                let number = text.trim().parse().unwrap_or_else(|_| {
                    if !text.is_empty() {
                        self.fail(&text);
                    }
                    0.0
                });
                conversion.real(number, letter, &mut self.out)
            }
            _ => {
                self.err.push_str(&format!("{}: {rest}: invalid format\n", self.name));
                self.code = 1;
                false
            }
        }
    }
}
