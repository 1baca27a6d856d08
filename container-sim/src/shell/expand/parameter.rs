//! Parameters: their values, and the operations of `${…}`.

use super::split::Splitter;
use super::{ExpandError, Expanding};
use crate::shell::machine::{Process, State};
use crate::shell::pattern::Pattern;
use crate::shell::syntax::{Dialect, Operation, Parameter, ReplacePlace, Word};
use crate::shell::variables::Value;

/// The value of a parameter.
enum ParameterValue {
    Unset,
    One(String),
    /// The values of `@`, `*` or all elements of an array; the flag is true for `*`.
    Many(Vec<String>, bool),
}

/// The value of a parameter that is no variable; `None` if it is one.
pub(super) fn special(state: &State, name: &str) -> Option<String> {
    Some(match name {
        "?" => state.code.to_string(),
        "$" => state.shell_pid.to_string(),
        "#" => state.positional.len().to_string(),
        "-" => Process::flags(&state.options),
        "!" => state.background?.to_string(),
        "0" => state.name.clone(),
        "PWD" => state.env.workdir.clone(),
        "SECONDS" if state.env.variables.get(name).is_none() => (state.env.now - state.env.shared.now)
            .saturating_sub(i64::try_from(state.started.as_secs()).unwrap_or(0))
            .to_string(),
        "LINENO" => state.line.to_string(),
        "PPID" => "0".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => {
            let at: usize = name.parse().ok()?;
            state.positional.get(at.checked_sub(1)?)?.clone()
        }
        _ => return None,
    })
}

impl Expanding<'_> {
    pub(super) fn parameter(
        &mut self,
        parameter: &Parameter,
        quoted: bool,
        out: &mut Splitter<'_>,
    ) -> Result<(), ExpandError> {
        let target = match parameter.indirect {
            true => match self.plain_value(&parameter.name, parameter.index.as_ref())? {
                ParameterValue::One(name) => name,
                ParameterValue::Unset | ParameterValue::Many(..) => String::new(),
            },
            false => parameter.name.clone(),
        };
        let index = parameter.index.as_ref().filter(|_| !parameter.indirect);
        let value = self.plain_value(&target, index)?;
        let is_null = |colon: bool| match &value {
            ParameterValue::Unset => true,
            ParameterValue::One(text) => colon && text.is_empty(),
            ParameterValue::Many(all, _) => all.is_empty() || (colon && all.iter().all(String::is_empty)),
        };
        match &parameter.operation {
            Operation::Default(word, colon) if is_null(*colon) => return self.inner_word(word, quoted, out),
            Operation::Alternative(word, colon) => {
                return if is_null(*colon) { Ok(()) } else { self.inner_word(word, quoted, out) };
            }
            Operation::Assign(word, colon) if is_null(*colon) => {
                let text = self.assigned(word)?;
                if !self.process.set(self.kernel, &target, &text) {
                    return Err(ExpandError::Failed(format!("{target}: is read only")));
                }
                return self.value(&text, quoted, out);
            }
            Operation::Require(word, colon) if is_null(*colon) => {
                let why = self.assigned(word)?;
                let why = match (why.is_empty(), colon) {
                    (false, _) => why,
                    (true, true) => "parameter not set or null".to_owned(),
                    (true, false) => "parameter not set".to_owned(),
                };
                return Err(ExpandError::Failed(format!("{target}: {why}")));
            }
            Operation::Keys => {
                let keys = self.keys(&target);
                return self.push(ParameterValue::Many(keys, false), quoted, out);
            }
            _ => {}
        }
        if matches!(value, ParameterValue::Unset) && self.process.state.options.nounset {
            return Err(ExpandError::Failed(format!("{target}: parameter not set")));
        }
        let value = self.operated(value, &parameter.operation)?;
        self.push(value, quoted, out)
    }

    /// The word of an operation.
    fn inner_word(&mut self, word: &Word, quoted: bool, out: &mut Splitter<'_>) -> Result<(), ExpandError> {
        if quoted && word.0.is_empty() {
            out.quoted("");
        }
        word.0.iter().try_for_each(|part| self.part(part, out, quoted, true))
    }

    fn push(
        &mut self,
        value: ParameterValue,
        quoted: bool,
        out: &mut Splitter<'_>,
    ) -> Result<(), ExpandError> {
        match value {
            ParameterValue::Unset => {
                if quoted {
                    out.quoted("");
                }
                Ok(())
            }
            ParameterValue::One(text) => self.value(&text, quoted, out),
            ParameterValue::Many(all, star) => {
                if (quoted && star) || !out.is_splitting() {
                    let ifs = self.process.state.env.variables.text("IFS").unwrap_or(" ");
                    let separator = match star {
                        true => ifs.chars().next().map(String::from).unwrap_or_default(),
                        false => " ".to_owned(),
                    };
                    self.reserve(all.iter().map(|text| text.len() + separator.len()).sum())?;
                    return self.value(&all.join(&separator), true, out);
                }
                for (at, text) in all.iter().enumerate() {
                    if at > 0 {
                        out.next_field();
                    }
                    self.value(text, quoted, out)?;
                }
                Ok(())
            }
        }
    }

    fn plain_value(&mut self, name: &str, index: Option<&Word>) -> Result<ParameterValue, ExpandError> {
        if name == "@" || name == "*" {
            let all = self.process.state.positional.to_vec();
            self.reserve(all.iter().map(|text| text.len() + crate::limits::WORD_COST).sum())?;
            return Ok(ParameterValue::Many(all, name == "*"));
        }
        let Some(index) = index else {
            if name == "RANDOM" && self.process.state.env.variables.get(name).is_none() {
                let seed = &mut self.kernel.random;
                let bytes = [(); 2].map(|()| crate::shell::descriptor::next_random(seed));
                return Ok(ParameterValue::One((u16::from_le_bytes(bytes) & 0x7fff).to_string()));
            }
            let found = special(&self.process.state, name)
                .or_else(|| self.process.state.env.variables.text(name).map(str::to_owned));
            if let Some(text) = &found {
                self.reserve(text.len())?;
            }
            return Ok(found.map_or(ParameterValue::Unset, ParameterValue::One));
        };
        if let Some(all @ ("@" | "*")) = index.plain() {
            let star = all == "*";
            let values = match self.process.state.env.variables.get(name).map(|variable| &variable.value) {
                Some(Value::Array(all)) => all.values().cloned().collect(),
                Some(Value::Map(all)) => all.values().cloned().collect(),
                Some(Value::Text(text)) => vec![text.clone()],
                Some(Value::Unset) | None => Vec::new(),
            };
            self.reserve(values.iter().map(|text: &String| text.len() + crate::limits::WORD_COST).sum())?;
            return Ok(ParameterValue::Many(values, star));
        }
        let is_map = self
            .process
            .state
            .env
            .variables
            .get(name)
            .is_some_and(|variable| matches!(variable.value, Value::Map(_)));
        let found = match is_map {
            true => {
                let key = self.assigned(index)?;
                super::lookup(&self.process.state, &format!("{name}[{key}]"))
            }
            false => {
                let mut at = self.number(index)?;
                if at < 0
                    && let Some(Value::Array(all)) =
                        self.process.state.env.variables.get(name).map(|variable| &variable.value)
                {
                    at += all.keys().last().map_or(0, |last| last + 1);
                }
                super::lookup(&self.process.state, &format!("{name}[{at}]"))
            }
        };
        Ok(found.map_or(ParameterValue::Unset, ParameterValue::One))
    }

    fn keys(&self, name: &str) -> Vec<String> {
        match self.process.state.env.variables.get(name).map(|variable| &variable.value) {
            Some(Value::Array(all)) => all.keys().map(i64::to_string).collect(),
            Some(Value::Map(all)) => all.keys().cloned().collect(),
            Some(Value::Text(_)) => vec!["0".to_owned()],
            Some(Value::Unset) | None => Vec::new(),
        }
    }

    fn operated(
        &mut self,
        value: ParameterValue,
        operation: &Operation,
    ) -> Result<ParameterValue, ExpandError> {
        if let Operation::Length = operation {
            let length = match value {
                ParameterValue::Unset => 0,
                ParameterValue::One(text) => text.chars().count(),
                ParameterValue::Many(all, _) if self.is_bash() => all.len(),
                // Busybox counts the characters of all together.
                ParameterValue::Many(all, _) => {
                    all.iter().map(|text| text.chars().count() + 1).sum::<usize>().saturating_sub(1)
                }
            };
            return Ok(ParameterValue::One(length.to_string()));
        }
        if let (ParameterValue::Many(all, star), Operation::Substring(offset, length)) = (&value, operation) {
            let offset = self.number(offset)?;
            let length = length.as_ref().map(|length| self.number(length)).transpose()?;
            // Of the positional parameters the first has the number 1.
            let first = usize::try_from(offset.max(0)).unwrap_or(0);
            let first = if *star || self.process.state.positional.as_slice() == all.as_slice() {
                first.saturating_sub(1)
            } else {
                first
            };
            let count = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(0));
            return Ok(ParameterValue::Many(all.iter().skip(first).take(count).cloned().collect(), *star));
        }
        Ok(match value {
            ParameterValue::Unset => ParameterValue::Unset,
            ParameterValue::One(text) => ParameterValue::One(self.changed(text, operation)?),
            ParameterValue::Many(all, star) => {
                let all: Result<Vec<String>, ExpandError> =
                    all.into_iter().map(|text| self.changed(text, operation)).collect();
                ParameterValue::Many(all?, star)
            }
        })
    }

    /// One value after an operation on its text.
    fn changed(&mut self, text: String, operation: &Operation) -> Result<String, ExpandError> {
        match operation {
            Operation::StripPrefix(word, longest) => {
                let pattern = self.pattern(word)?;
                let chars: Vec<char> = text.chars().collect();
                self.reserve(4 * chars.len())?;
                let ends = pattern.ends(&chars, 0, &self.kernel.bounds.work, 0);
                let end = if *longest { ends.last() } else { ends.first() };
                Ok(end.map_or(text, |end| chars[*end..].iter().collect()))
            }
            Operation::StripSuffix(word, longest) => {
                let pattern = self.pattern(word)?;
                let chars: Vec<char> = text.chars().collect();
                self.reserve(4 * chars.len())?;
                let work = &self.kernel.bounds.work;
                let fits = |start: &usize| {
                    work.spend(16) && pattern.ends(&chars, *start, work, 0).last() == Some(&chars.len())
                };
                let start = match longest {
                    true => (0..=chars.len()).find(fits),
                    false => (0..=chars.len()).rev().find(fits),
                };
                Ok(start.map_or(text, |start| chars[..start].iter().collect()))
            }
            Operation::Substring(offset, length) => {
                let offset = self.number(offset)?;
                let length = length.as_ref().map(|length| self.number(length)).transpose()?;
                Ok(substring(&text, offset, length))
            }
            Operation::Replace(place, pattern, with) => {
                let pattern = self.pattern(pattern)?;
                let with = self.assigned(with)?;
                self.replaced(&text, *place, &pattern, &with)
            }
            Operation::Case(upper, all) => {
                let changed = |c: char| if *upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
                Ok(text
                    .chars()
                    .enumerate()
                    .map(|(at, c)| if at == 0 || *all { changed(c) } else { c })
                    .collect())
            }
            _ => Ok(text),
        }
    }

    fn replaced(
        &mut self,
        text: &str,
        place: ReplacePlace,
        pattern: &Pattern,
        with: &str,
    ) -> Result<String, ExpandError> {
        let chars: Vec<char> = text.chars().collect();
        self.reserve(4 * chars.len())?;
        let (mut out, mut at) = (String::new(), 0);
        while at <= chars.len() {
            let ends = pattern.ends(&chars, at, &self.kernel.bounds.work, 0);
            let end = match place {
                ReplacePlace::End => ends.last().copied().filter(|end| *end == chars.len()),
                _ => ends.last().copied(),
            };
            // An empty match replaces nothing, but at the ends.
            let end = end.filter(|end| *end > at || matches!(place, ReplacePlace::Start | ReplacePlace::End));
            if let Some(end) = end {
                self.reserve(with.len())?;
                out.push_str(with);
                at = end;
                if place != ReplacePlace::All {
                    break;
                }
                continue;
            }
            if place == ReplacePlace::Start || at == chars.len() {
                break;
            }
            if self.kernel.bounds.work.killed().is_some() {
                return Err(ExpandError::Killed);
            }
            out.push(chars[at]);
            at += 1;
        }
        out.extend(&chars[at.min(chars.len())..]);
        Ok(out)
    }

    /// Whether the dialect is bash.
    pub(super) fn is_bash(&self) -> bool {
        self.process.state.env.dialect == Dialect::Bash
    }
}

fn substring(text: &str, offset: i64, length: Option<i64>) -> String {
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let start = if offset < 0 { count.saturating_add(offset) } else { offset };
    if start < 0 || start > count {
        return String::new();
    }
    let end = match length {
        None => count,
        Some(length) if length < 0 => count.saturating_add(length),
        Some(length) => start.saturating_add(length),
    };
    let places = (usize::try_from(start), usize::try_from(end.max(start) - start));
    let (Ok(start), Ok(length)) = places else { return String::new() };
    text.chars().skip(start).take(length).collect()
}
