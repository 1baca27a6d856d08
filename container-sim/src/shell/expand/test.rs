//! `[[ … ]]`: the words are not split, and patterns and regular expressions count right of `=` and `=~`.

use super::{ExpandError, Expanding};
use crate::limits::NESTED_EXPRESSIONS;
use crate::shell::machine::{Kernel, Process};
use crate::shell::memory::Reservation;
use crate::shell::regex::Regex;
use crate::shell::syntax::Word;
use crate::shell::tools::conditions;
use crate::shell::variables::Value;
use std::collections::BTreeMap;

impl Process {
    /// The exit code of `[[ … ]]`.
    pub(in crate::shell) fn double_test(
        &mut self,
        kernel: &mut Kernel,
        words: &[(Word, bool)],
    ) -> Result<u8, ExpandError> {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let mut test = Test { expanding: Expanding::new(self, kernel, &mut room), words, at: 0 };
        let holds = test.or(0)?;
        if test.at < words.len() {
            return Err(ExpandError::Failed("syntax error in conditional expression".to_owned()));
        }
        Ok(u8::from(!holds))
    }
}

struct Test<'a, 'b> {
    expanding: Expanding<'a>,
    words: &'b [(Word, bool)],
    at: usize,
}

impl Test<'_, '_> {
    /// The next word if it is an operator or a plain text.
    fn operator(&self) -> Option<&str> {
        self.words.get(self.at).filter(|(_, may)| *may).and_then(|(word, _)| word.plain())
    }

    fn skip(&mut self, operator: &str) -> bool {
        let found = self.operator() == Some(operator);
        self.at += usize::from(found);
        found
    }

    fn or(&mut self, depth: usize) -> Result<bool, ExpandError> {
        let mut holds = self.and(depth)?;
        while self.skip("||") {
            let other = self.and(depth)?;
            holds |= other;
        }
        Ok(holds)
    }

    fn and(&mut self, depth: usize) -> Result<bool, ExpandError> {
        let mut holds = self.primary(depth)?;
        while self.skip("&&") {
            let other = self.primary(depth)?;
            holds &= other;
        }
        Ok(holds)
    }

    fn primary(&mut self, depth: usize) -> Result<bool, ExpandError> {
        if depth > NESTED_EXPRESSIONS {
            return Err(ExpandError::Failed("conditional expression is nested too deeply".to_owned()));
        }
        if self.skip("!") {
            return Ok(!self.primary(depth + 1)?);
        }
        if self.skip("(") {
            let holds = self.or(depth + 1)?;
            return match self.skip(")") {
                true => Ok(holds),
                false => Err(ExpandError::Failed("missing ) in conditional expression".to_owned())),
            };
        }
        let binary = self.words.get(self.at + 1).filter(|(_, may)| *may).and_then(|(word, _)| word.plain());
        if let Some(operator) =
            binary.filter(|text| conditions::is_binary(text) || matches!(*text, "=~" | "<" | ">"))
        {
            let operator = operator.to_owned();
            return self.binary(&operator);
        }
        if let Some(unary) = self.operator().filter(|text| conditions::is_unary(text)).map(str::to_owned)
            && self.at + 1 < self.words.len()
        {
            self.at += 1;
            let operand = self.text()?;
            return Ok(conditions::unary(
                &self.expanding.process.state.env,
                &self.expanding.process.descriptors,
                &unary,
                &operand,
            ));
        }
        Ok(!self.text()?.is_empty())
    }

    fn text(&mut self) -> Result<String, ExpandError> {
        let Some((word, _)) = self.words.get(self.at) else {
            return Err(ExpandError::Failed("conditional expression ends too early".to_owned()));
        };
        self.at += 1;
        self.expanding.assigned(word)
    }

    fn binary(&mut self, operator: &str) -> Result<bool, ExpandError> {
        let left = self.text()?;
        self.at += 1;
        match operator {
            "=" | "==" | "!=" => {
                let Some((word, _)) = self.words.get(self.at) else {
                    return Err(ExpandError::Failed("conditional expression ends too early".to_owned()));
                };
                self.at += 1;
                let pattern = self.expanding.pattern_text(word)?;
                let pattern = crate::shell::pattern::Pattern::parse(&pattern, true);
                let chars: Vec<char> = left.chars().collect();
                Ok(pattern.matches(&chars, &self.expanding.kernel.bounds.work) == (operator != "!="))
            }
            "=~" => self.matches(&left),
            "<" | ">" => {
                let right = self.text()?;
                Ok(if operator == "<" { left < right } else { left > right })
            }
            operator => {
                let right = self.text()?;
                let holds = conditions::binary(&self.expanding.process.state.env, &left, operator, &right);
                holds.map_err(ExpandError::Failed)
            }
        }
    }

    fn matches(&mut self, text: &str) -> Result<bool, ExpandError> {
        let Some((word, _)) = self.words.get(self.at) else {
            return Err(ExpandError::Failed("conditional expression ends too early".to_owned()));
        };
        self.at += 1;
        let pattern = self.expanding.pattern_text(word)?;
        let regex = Regex::extended(&pattern, false).map_err(ExpandError::Failed)?;
        let work = self.expanding.kernel.bounds.work.clone();
        let found = regex.find(text.as_bytes(), 0, true, &work);
        if self.expanding.is_bash() {
            let groups: BTreeMap<i64, String> = found
                .iter()
                .flat_map(|groups| groups.iter().enumerate())
                .map(|(at, place)| {
                    let part = place.map(|(start, end)| &text.as_bytes()[start..end]).unwrap_or_default();
                    (i64::try_from(at).unwrap_or(0), String::from_utf8_lossy(part).into_owned())
                })
                .collect();
            let bounds = (&self.expanding.kernel.bounds, &mut self.expanding.process.room);
            // The variable is not read-only.
            let _ = self.expanding.process.state.env.variables.change("BASH_REMATCH", bounds, |variable| {
                variable.value = Value::Array(groups);
            });
        }
        Ok(found.is_some())
    }
}
