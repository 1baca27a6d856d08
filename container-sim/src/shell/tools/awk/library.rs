//! Functions of awk.

use super::run::{Run, Stop};
use super::tree::Expr;
use super::value::Value;
use crate::shell::descriptor::next_random;

impl Run<'_> {
    /// Calls a function of the language.
    pub(super) fn library(&mut self, name: &str, arguments: &[Expr], depth: usize) -> Result<Value, Stop> {
        let record = Expr::Field(Box::new(Expr::Number(0.0)));
        match name {
            "length" => return self.length(arguments.first().unwrap_or(&record), depth),
            "split" => return self.split_into(arguments, depth),
            "sub" | "gsub" => return self.replace(arguments, name == "gsub", depth),
            "match" => return self.find(arguments, depth),
            "sprintf" => return self.sprintf(arguments, depth).map(Value::Text),
            _ => {}
        }
        let mut values = Vec::new();
        for expr in arguments {
            values.push(self.eval(expr, depth + 1)?);
        }
        let text = |run: &Self, at: usize| values.get(at).map(|value| run.text(value)).unwrap_or_default();
        let number = |at: usize| values.get(at).map_or(0.0, Value::number);
        Ok(match name {
            "substr" => {
                let length = values.get(2).map_or(f64::INFINITY, Value::number);
                let start = number(1).round();
                let end = if length.is_infinite() { f64::INFINITY } else { start + length.round() };
                let chars = text(self, 0);
                #[expect(clippy::cast_precision_loss, reason = "texts are short")]
                let shown = chars.chars().enumerate().filter(|(at, _)| {
                    let place = (*at + 1) as f64;
                    place >= start && place < end
                });
                Value::Text(shown.map(|(_, c)| c).collect())
            }
            "index" => {
                let (text, part) = (text(self, 0), text(self, 1));
                #[expect(clippy::cast_precision_loss, reason = "texts are short")]
                let at = text.find(&part).map_or(0.0, |at| (text[..at].chars().count() + 1) as f64);
                Value::Number(at)
            }
            "tolower" => Value::Text(text(self, 0).to_ascii_lowercase()),
            "toupper" => Value::Text(text(self, 0).to_ascii_uppercase()),
            "int" => Value::Number(number(0).trunc()),
            "sqrt" => Value::Number(number(0).sqrt()),
            "exp" => Value::Number(number(0).exp()),
            "log" => Value::Number(number(0).ln()),
            "sin" => Value::Number(number(0).sin()),
            "cos" => Value::Number(number(0).cos()),
            "atan2" => Value::Number(number(0).atan2(number(1))),
            "and" | "or" => {
                #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
                let (one, other) = (number(0) as i64, number(1) as i64);
                #[expect(clippy::cast_precision_loss, reason = "awk's numbers are floats")]
                Value::Number(if name == "and" { one & other } else { one | other } as f64)
            }
            "rand" => {
                let bytes = [(); 4].map(|()| next_random(&mut self.seed));
                Value::Number(f64::from(u32::from_le_bytes(bytes)) / 4_294_967_296.0)
            }
            "srand" => {
                #[expect(clippy::cast_precision_loss, reason = "awk's numbers are floats")]
                let before = self.seed as f64;
                #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
                let given = values.first().map(|value| (value.number() as i64).unsigned_abs());
                self.seed = given.unwrap_or(self.call.env.now.unsigned_abs());
                Value::Number(before)
            }
            #[expect(clippy::cast_precision_loss, reason = "awk's numbers are floats")]
            "systime" => Value::Number(self.call.env.now as f64),
            _ => {
                let name = text(self, 0);
                self.close(&name);
                Value::Number(0.0)
            }
        })
    }

    fn length(&mut self, expr: &Expr, depth: usize) -> Result<Value, Stop> {
        #[expect(clippy::cast_precision_loss, reason = "arrays and texts are short")]
        if let Expr::Variable(name) = expr
            && let Some(count) = self.array_length(name)
        {
            return Ok(Value::Number(count as f64));
        }
        let value = self.eval(expr, depth + 1)?;
        #[expect(clippy::cast_precision_loss, reason = "texts are short")]
        Ok(Value::Number(self.text(&value).chars().count() as f64))
    }

    fn split_into(&mut self, arguments: &[Expr], depth: usize) -> Result<Value, Stop> {
        let [text, Expr::Variable(name), rest @ ..] = arguments else {
            return Err(Stop::Error("split: needs a text and an array".to_owned()));
        };
        let text = self.eval(text, depth + 1)?;
        let text = self.text(&text);
        let parts = match rest.first() {
            Some(Expr::Regex(_)) | None => {
                let separator = self.variable("FS");
                let separator = self.text(&separator);
                match rest.first() {
                    Some(expr) => {
                        let regex = self.pattern(expr, depth)?;
                        self.split_by(&text, &regex)?
                    }
                    None => self.split(&text, &separator)?,
                }
            }
            Some(expr) => {
                let separator = self.eval(expr, depth + 1)?;
                let separator = self.text(&separator);
                self.split(&text, &separator)?
            }
        };
        let array = self.array(name)?;
        self.arrays[array].clear();
        let count = parts.len();
        for (at, part) in parts.into_iter().enumerate() {
            self.set_element(array, (at + 1).to_string(), Value::Input(part))?;
        }
        #[expect(clippy::cast_precision_loss, reason = "parts are few")]
        Ok(Value::Number(count as f64))
    }

    fn split_by(&mut self, text: &str, regex: &crate::shell::regex::Regex) -> Result<Vec<String>, Stop> {
        let (mut parts, mut from, mut search) = (Vec::new(), 0, 0);
        if text.is_empty() {
            return Ok(parts);
        }
        while search <= text.len()
            && let Some((start, end)) =
                regex.find(text.as_bytes(), search, true, &self.call.env.work).and_then(|groups| groups[0])
        {
            if end == start {
                search = end + 1;
                continue;
            }
            parts.push(text[from..start].to_owned());
            (from, search) = (end, end);
        }
        parts.push(text[from..].to_owned());
        Ok(parts)
    }

    /// `sub` and `gsub`.
    fn replace(&mut self, arguments: &[Expr], all: bool, depth: usize) -> Result<Value, Stop> {
        let record = Expr::Field(Box::new(Expr::Number(0.0)));
        let [pattern, with, rest @ ..] = arguments else {
            return Err(Stop::Error("sub: needs two arguments".to_owned()));
        };
        let place = rest.first().unwrap_or(&record);
        let regex = self.pattern(pattern, depth)?;
        let with = self.eval(with, depth + 1)?;
        let with = self.text(&with);
        let value = self.eval(place, depth + 1)?;
        let text = self.text(&value).into_bytes();
        let (mut new, mut from, mut count, mut last_end) = (Vec::new(), 0, 0u32, usize::MAX);
        while from <= text.len() {
            let Some((start, end)) =
                regex.find(&text, from, true, &self.call.env.work).and_then(|groups| groups[0])
            else {
                break;
            };
            new.extend_from_slice(&text[from..start]);
            if end > start || last_end != start {
                count += 1;
                put(&with, &text[start..end], &mut new);
            }
            (from, last_end) = (end, end);
            if end == start {
                new.extend(text.get(end));
                from += 1;
            }
            let fits = self.call.env.work.spend(64 + new.len() / 16)
                && self.call.env.memory.hold(new.len()).is_some();
            if !fits {
                self.call.env.work.kill(crate::shell::Killed::Memory);
                return Err(Stop::Killed);
            }
            if !all {
                break;
            }
        }
        if count > 0 {
            new.extend_from_slice(text.get(from..).unwrap_or_default());
            let text = String::from_utf8_lossy(&new).into_owned();
            self.assign_to(place, Value::Text(text), depth)?;
        }
        Ok(Value::Number(f64::from(count)))
    }

    fn find(&mut self, arguments: &[Expr], depth: usize) -> Result<Value, Stop> {
        let [text, pattern, ..] = arguments else {
            return Err(Stop::Error("match: needs two arguments".to_owned()));
        };
        let text = self.eval(text, depth + 1)?;
        let text = self.text(&text);
        let regex = self.pattern(pattern, depth)?;
        let found = regex.find(text.as_bytes(), 0, true, &self.call.env.work).and_then(|groups| groups[0]);
        #[expect(clippy::cast_precision_loss, reason = "texts are short")]
        let (start, length) = found.map_or((0.0, -1.0), |(start, end)| {
            ((text[..start].chars().count() + 1) as f64, text[start..end].chars().count() as f64)
        });
        self.set("RSTART", Value::Number(start))?;
        self.set("RLENGTH", Value::Number(length))?;
        Ok(Value::Number(start))
    }
}

/// Adds the text of a replacement, in which `&` is the match.
fn put(with: &str, found: &[u8], new: &mut Vec<u8>) {
    let mut chars = with.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if matches!(chars.peek(), Some('&' | '\\')) => {
                new.extend(chars.next().map(String::from).unwrap_or_default().into_bytes());
            }
            '&' => new.extend_from_slice(found),
            c => new.extend(c.to_string().into_bytes()),
        }
    }
}
