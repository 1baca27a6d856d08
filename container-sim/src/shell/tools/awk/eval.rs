//! Expressions of awk: operators, places of assignments, calls and `getline`.

use super::run::{Cell, Run, Stop};
use super::tree::Expr;
use super::value::Value;
use crate::limits::FIELD_WIDTH;
use crate::shell::memory::Buffer;
use crate::shell::regex::Regex;
use crate::shell::tools::printf::conversion;
use std::collections::BTreeMap;

/// Functions that call each other.
const CALLS: usize = 48;
/// The most fields of a record.
const FIELDS: usize = 100_000;

impl Run<'_> {
    pub(super) fn subscript(&mut self, index: &[Expr], depth: usize) -> Result<String, Stop> {
        let mut key = String::new();
        for (at, expr) in index.iter().enumerate() {
            if at > 0 {
                let separator = self.variable("SUBSEP");
                key.push_str(&self.text(&separator));
            }
            let value = self.eval(expr, depth + 1)?;
            key.push_str(&self.text(&value));
        }
        Ok(key)
    }

    pub(super) fn set_element(&mut self, array: usize, key: String, value: Value) -> Result<(), Stop> {
        let cost = |value: &Value| value.length() + 96;
        let old = self.arrays[array].get(&key).map_or(0, |old| cost(old) + key.len());
        self.room.shrink(old);
        self.grow(cost(&value) + key.len())?;
        self.arrays[array].insert(key, value);
        Ok(())
    }

    pub(super) fn set_count(&mut self, count: f64) -> Result<(), Stop> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
        let count = count.clamp(0.0, FIELDS as f64) as usize;
        self.split_record()?;
        if let Some(fields) = &mut self.fields {
            fields.resize(count, Value::Unset);
        }
        self.join_record()
    }

    pub(super) fn join_record(&mut self) -> Result<(), Stop> {
        let separator = self.variable("OFS");
        let separator = self.text(&separator);
        let fields = self.fields.take().unwrap_or_default();
        let texts: Vec<String> = fields.iter().map(|field| self.text(field)).collect();
        self.spend(texts.iter().map(|text| text.len() + separator.len() + 16).sum())?;
        self.record = texts.join(&separator);
        self.fields = Some(fields);
        Ok(())
    }

    pub(super) fn field_number(&mut self, expr: &Expr, depth: usize) -> Result<usize, Stop> {
        let number = self.eval(expr, depth + 1)?.number();
        if !(0.0..=FIELDS as f64).contains(&number) {
            return Err(Stop::Error(format!("access to field {number}")));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
        Ok(number as usize)
    }

    pub(super) fn assign(&mut self, place: &Expr, value: Value, depth: usize) -> Result<(), Stop> {
        match place {
            Expr::Variable(name) => self.set(name, value),
            Expr::Element(name, index) => {
                let key = self.subscript(index, depth)?;
                let array = self.array(name)?;
                self.set_element(array, key, value)
            }
            Expr::Field(number) => {
                let number = self.field_number(number, depth)?;
                if number == 0 {
                    let text = self.text(&value);
                    return self.set_record(text);
                }
                let count = self.split_record()?;
                self.spend(value.length() + 8 * number)?;
                if let Some(fields) = &mut self.fields {
                    if number > count {
                        fields.resize(number, Value::Unset);
                    }
                    fields[number - 1] = value;
                }
                self.join_record()
            }
            Expr::Group(all) if all.len() == 1 => self.assign(&all[0], value, depth + 1),
            _ => Err(Stop::Error("assignment to what is no variable".to_owned())),
        }
    }

    pub(super) fn assign_to(&mut self, place: &Expr, value: Value, depth: usize) -> Result<(), Stop> {
        self.assign(place, value, depth)
    }

    pub(super) fn eval(&mut self, expr: &Expr, depth: usize) -> Result<Value, Stop> {
        self.spend(64)?;
        Ok(match expr {
            Expr::Number(number) => Value::Number(*number),
            Expr::Text(text) => {
                self.spend(text.len())?;
                Value::Text(text.clone())
            }
            Expr::Regex(regex) => {
                let found = regex.find(self.record.as_bytes(), 0, true, &self.call.env.work);
                Value::Number(f64::from(u8::from(found.is_some())))
            }
            #[expect(clippy::cast_precision_loss, reason = "fields are few")]
            Expr::Variable(name) if name == "NF" && !self.is_local(name) => {
                Value::Number(self.split_record()? as f64)
            }
            Expr::Variable(name) => self.variable(name),
            Expr::Field(number) => {
                let number = self.field_number(number, depth)?;
                if number == 0 {
                    self.spend(self.record.len())?;
                    return Ok(Value::Input(self.record.clone()));
                }
                self.split_record()?;
                self.fields.as_ref().and_then(|fields| fields.get(number - 1)).cloned().unwrap_or_default()
            }
            Expr::Element(name, index) => self.element(name, index, depth)?,
            Expr::Assign(operator, place, value) => {
                let mut value = self.eval(value, depth + 1)?;
                if !operator.is_empty() {
                    let old = self.eval(place, depth + 1)?.number();
                    value = Value::Number(compute(operator, old, value.number())?);
                }
                self.assign(place, value.clone(), depth)?;
                value
            }
            Expr::Step(place, by, old) => {
                let before = self.eval(place, depth + 1)?.number();
                self.assign(place, Value::Number(before + by), depth)?;
                Value::Number(if *old { before } else { before + by })
            }
            Expr::Conditional(condition, first, second) => {
                let chosen = if self.eval(condition, depth + 1)?.is_true() { first } else { second };
                self.eval(chosen, depth + 1)?
            }
            Expr::Binary(operator, left, right) => self.binary(operator, left, right, depth)?,
            Expr::Unary("!", inside) => {
                Value::Number(f64::from(u8::from(!self.eval(inside, depth + 1)?.is_true())))
            }
            Expr::Unary(operator, inside) => {
                let number = self.eval(inside, depth + 1)?.number();
                Value::Number(if *operator == "-" { -number } else { number })
            }
            Expr::In(index, name) => {
                let key = self.subscript(index, depth)?;
                let array = self.array(name)?;
                Value::Number(f64::from(u8::from(self.arrays[array].contains_key(&key))))
            }
            Expr::Group(all) => match all.as_slice() {
                [one] => self.eval(one, depth + 1)?,
                all => Value::Text(self.subscript(all, depth)?),
            },
            Expr::Call(name, arguments) => match self.program.functions.get(name) {
                Some(_) => self.call(name, arguments, depth)?,
                None => self.library(name, arguments, depth)?,
            },
            Expr::Getline(place, file) => self.getline(place.as_deref(), file.as_deref(), depth)?,
        })
    }

    fn element(&mut self, name: &str, index: &[Expr], depth: usize) -> Result<Value, Stop> {
        let key = self.subscript(index, depth)?;
        let array = self.array(name)?;
        if !self.arrays[array].contains_key(&key) {
            self.set_element(array, key.clone(), Value::Unset)?;
        }
        Ok(self.arrays[array].get(&key).cloned().unwrap_or_default())
    }

    pub(super) fn binary(
        &mut self,
        operator: &str,
        left: &Expr,
        right: &Expr,
        depth: usize,
    ) -> Result<Value, Stop> {
        let truth = |holds: bool| Value::Number(f64::from(u8::from(holds)));
        let one = self.eval(left, depth + 1)?;
        match operator {
            "&&" => return Ok(truth(one.is_true() && self.eval(right, depth + 1)?.is_true())),
            "||" => return Ok(truth(one.is_true() || self.eval(right, depth + 1)?.is_true())),
            "~" | "!~" => {
                let text = self.text(&one);
                let regex = self.pattern(right, depth)?;
                let found = regex.find(text.as_bytes(), 0, true, &self.call.env.work).is_some();
                return Ok(truth(found == (operator == "~")));
            }
            _ => {}
        }
        let other = self.eval(right, depth + 1)?;
        match operator {
            " " => {
                let (mut text, more) = (self.text(&one), self.text(&other));
                self.spend(text.len() + more.len())?;
                if self.call.env.memory.hold(text.len() + more.len()).is_none() {
                    self.call.env.work.kill(crate::shell::Killed::Memory);
                    return Err(Stop::Killed);
                }
                text.push_str(&more);
                Ok(Value::Text(text))
            }
            "<" | "<=" | ">" | ">=" | "==" | "!=" => {
                let order = match one.is_number() && other.is_number() {
                    true => one.number().total_cmp(&(other.number() + 0.0)),
                    false => self.text(&one).cmp(&self.text(&other)),
                };
                let order = if one.is_number() && other.is_number() && one.number() == other.number() {
                    std::cmp::Ordering::Equal
                } else {
                    order
                };
                Ok(truth(match operator {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    "==" => order.is_eq(),
                    _ => order.is_ne(),
                }))
            }
            operator => compute(operator, one.number(), other.number()).map(Value::Number),
        }
    }

    /// An expression as a regular expression.
    pub(super) fn pattern(&mut self, expr: &Expr, depth: usize) -> Result<Regex, Stop> {
        if let Expr::Regex(regex) = expr {
            return Ok((**regex).clone());
        }
        let value = self.eval(expr, depth + 1)?;
        let text = self.text(&value);
        self.compiled(&text)
    }

    pub(super) fn getline(
        &mut self,
        place: Option<&Expr>,
        file: Option<&Expr>,
        depth: usize,
    ) -> Result<Value, Stop> {
        let found = match file {
            None => self.read()?,
            Some(file) => {
                let name = self.eval(file, depth + 1)?;
                let name = self.text(&name);
                let env = self.call.env;
                if !self.readers.contains_key(&name) {
                    let Ok(bytes) = env.read(&env.path(&name)) else { return Ok(Value::Number(-1.0)) };
                    self.grow(name.len() + 128)?;
                    self.readers.insert(name.clone(), (bytes, 0));
                }
                let (bytes, mut at) = self.readers.get(&name).cloned().unwrap_or_default();
                let found = self.cut(&bytes, &mut at)?;
                self.readers.insert(name, (bytes, at));
                found
            }
        };
        let Some(text) = found else { return Ok(Value::Number(0.0)) };
        match place {
            Some(place) => self.assign(place, Value::Input(text), depth)?,
            None => self.set_record(text)?,
        }
        Ok(Value::Number(1.0))
    }

    pub(super) fn call(&mut self, name: &str, arguments: &[Expr], depth: usize) -> Result<Value, Stop> {
        let program = self.program;
        let Some(function) = program.functions.get(name) else { return Ok(Value::Unset) };
        if self.frames.len() >= CALLS {
            return Err(Stop::Error("too many nested calls".to_owned()));
        }
        let mut frame = BTreeMap::new();
        for (at, parameter) in function.parameters.iter().enumerate() {
            let cell = match arguments.get(at) {
                // An array is passed as itself.
                Some(Expr::Variable(name)) => match self.cells(name).get(name) {
                    Some(Cell::Array(number)) => Cell::Array(*number),
                    Some(Cell::One(value)) => Cell::One(value.clone()),
                    Some(Cell::Unset) | None if name == "NF" => {
                        Cell::One(self.eval(&arguments[at], depth + 1)?)
                    }
                    Some(Cell::Unset) | None => Cell::Unset,
                },
                Some(expr) => Cell::One(self.eval(expr, depth + 1)?),
                None => Cell::Unset,
            };
            if let Cell::One(value) = &cell {
                self.spend(value.length())?;
            }
            frame.insert(parameter.clone(), cell);
        }
        self.frames.push(frame);
        let result = self.statement(&function.body, depth + 1);
        let frame = self.frames.pop().unwrap_or_default();
        // A parameter without a value may have become an array, which the caller's variable then is.
        for (at, parameter) in function.parameters.iter().enumerate() {
            if let (Some(Expr::Variable(name)), Some(Cell::Array(number))) =
                (arguments.get(at), frame.get(parameter))
                && matches!(self.cells(name).get(name), None | Some(Cell::Unset))
            {
                self.cells(name).insert(name.clone(), Cell::Array(*number));
            }
        }
        match result {
            Ok(()) => Ok(Value::Unset),
            Err(Stop::Return(value)) => Ok(value),
            Err(stop) => Err(stop),
        }
    }

    /// The text of `printf`.
    pub(super) fn sprintf(&mut self, arguments: &[Expr], depth: usize) -> Result<String, Stop> {
        let mut values = Vec::new();
        for expr in arguments {
            values.push(self.eval(expr, depth + 1)?);
        }
        let mut values = values.into_iter();
        let format = values.next().unwrap_or_default();
        let format = self.text(&format);
        let mut out = Buffer::new(&self.call.env.bounds());
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            out.push(&rest.as_bytes()[..at]);
            let behind = &rest[at + 1..];
            let (conversion, letter, behind) = conversion(behind, &mut || {
                #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
                values.next().map_or(0, |value| value.number() as i64)
            });
            rest = behind;
            let fits = match letter {
                Some('%') => out.push(b"%"),
                Some('c') => {
                    let value = values.next().unwrap_or_default();
                    let text = match &value {
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "casts of floats saturate"
                        )]
                        Value::Number(number) => {
                            char::from_u32(*number as u32).map(String::from).unwrap_or_default()
                        }
                        value => self.text(value).chars().take(1).collect(),
                    };
                    conversion.text(&text, &mut out)
                }
                Some(letter @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X')) => {
                    #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
                    let number = values.next().unwrap_or_default().number() as i64;
                    conversion.whole(number, letter, &mut out)
                }
                Some(letter @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')) => {
                    conversion.real(values.next().unwrap_or_default().number(), letter, &mut out)
                }
                Some('s') => {
                    let value = values.next().unwrap_or_default();
                    conversion.text(&self.text(&value), &mut out)
                }
                Some(other) => out.push(format!("%{other}").as_bytes()),
                None => out.push(b"%"),
            };
            if !fits || out.len() > 16 * FIELD_WIDTH * 64 {
                return Err(Stop::Killed);
            }
        }
        out.push(rest.as_bytes());
        Ok(String::from_utf8_lossy(out.as_ref()).into_owned())
    }
}

fn compute(operator: &str, left: f64, right: f64) -> Result<f64, Stop> {
    Ok(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "^" => left.powf(right),
        _ if right == 0.0 => return Err(Stop::Error("division by zero".to_owned())),
        "/" => left / right,
        _ => left % right,
    })
}
