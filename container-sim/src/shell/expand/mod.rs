//! Expansion of words: parameters, substitutions, arithmetic, splitting at `IFS`, braces, and file names.
//!
//! A substitution runs in a process of its own. When one is met whose output is not known, the expansion stops with
//! [`ExpandError::Output`]; the process runs it and expands the word again. Outputs are kept by their place in the script.

mod braces;
mod files;
mod parameter;
mod split;
mod test;

use super::machine::{Kernel, PartialWords, Process};
use super::memory::Reservation;
use super::pattern::{self, Pattern};
use super::syntax::{Dialect, Expansion, List, Word, WordPart};
use super::{arithmetic, variables::Value};
use split::Splitter;
use std::borrow::Cow;
use std::sync::Arc;

/// Why a word cannot be expanded now.
#[derive(Debug)]
pub(super) enum ExpandError {
    /// The output of this substitution is needed first; with its place in the script.
    Output(usize, Arc<List>),
    /// An error that ends the shell.
    Failed(String),
    /// The command is killed.
    Killed,
}

/// An expansion under way: its process, and the memory of what it makes.
pub(super) struct Expanding<'a> {
    process: &'a mut Process,
    kernel: &'a mut Kernel,
    room: &'a mut Reservation,
}

/// A part of a word whose braces are expanded.
enum Piece<'a> {
    Text(Cow<'a, str>),
    Part(&'a WordPart),
}

impl Process {
    /// The fields of all words.
    pub(super) fn expand_all(
        &mut self,
        kernel: &mut Kernel,
        words: &[Word],
        room: &mut Reservation,
    ) -> Result<Vec<String>, ExpandError> {
        let key = words.as_ptr().addr();
        let (mut all, mut next) = (Vec::new(), 0);
        if let Some(partial) = self.partial.take_if(|partial| partial.key == key) {
            (all, next) = (partial.fields, partial.next);
            *room = partial.room;
        }
        while let Some(word) = words.get(next) {
            let expanded = Expanding::new(self, kernel, room).next_word(word, &mut all);
            if let Err(error) = expanded {
                if matches!(error, ExpandError::Output(..)) {
                    let room = std::mem::replace(room, Reservation::new(&kernel.bounds.allowance));
                    self.partial = Some(PartialWords { key, next, fields: all, room });
                }
                return Err(error);
            }
            next += 1;
        }
        Ok(all)
    }

    /// A word as one text, without splitting and file names.
    pub(super) fn expand_text(
        &mut self,
        kernel: &mut Kernel,
        word: &Word,
        room: &mut Reservation,
    ) -> Result<String, ExpandError> {
        Expanding::new(self, kernel, room).assigned(word)
    }

    /// The value of an arithmetic expression.
    pub(super) fn arithmetic(&mut self, kernel: &mut Kernel, word: &Word) -> Result<i64, ExpandError> {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        Expanding::new(self, kernel, &mut room).number(word)
    }
}

/// Whether the word begins with `NAME=`.
fn assigns(word: &Word) -> bool {
    matches!(word.0.first(), Some(WordPart::Text(text)) if text.split_once('=').is_some_and(|(name, _)| {
        super::syntax::is_name(name.strip_suffix('+').unwrap_or(name))
    }))
}

impl<'a> Expanding<'a> {
    pub(super) fn new(process: &'a mut Process, kernel: &'a mut Kernel, room: &'a mut Reservation) -> Self {
        Self { process, kernel, room }
    }

    /// Takes memory and work for so many bytes.
    fn reserve(&mut self, bytes: usize) -> Result<(), ExpandError> {
        let bounds = &self.kernel.bounds;
        if bounds.work.spend(bytes + 16) && bounds.grow(self.room, bytes) {
            Ok(())
        } else {
            Err(ExpandError::Killed)
        }
    }

    /// Adds the fields of one word. Of `export A=$B` and its like the word is assigned, and not split.
    fn next_word(&mut self, word: &Word, all: &mut Vec<String>) -> Result<(), ExpandError> {
        let declares = all.first().is_some_and(|first: &String| {
            matches!(first.as_str(), "export" | "readonly" | "local" | "declare" | "typeset")
        });
        if declares && assigns(word) {
            all.push(self.assigned(word)?);
            return Ok(());
        }
        let before = all.len();
        let result = self.fields(word, all);
        if result.is_err() {
            all.truncate(before);
        }
        result
    }

    fn fields(&mut self, word: &Word, all: &mut Vec<String>) -> Result<(), ExpandError> {
        let has_braces = self.process.state.env.dialect == Dialect::Bash
            && word.0.iter().any(|part| matches!(part, WordPart::Text(text) if text.contains('{')));
        if !has_braces {
            let pieces: Vec<Piece<'_>> = word.0.iter().map(Piece::Part).collect();
            return self.split_fields(&pieces, all);
        }
        let words = braces::expand(word, &self.kernel.bounds.work);
        for pieces in words.ok_or(ExpandError::Killed)? {
            self.split_fields(&pieces, all)?;
        }
        Ok(())
    }

    fn split_fields(&mut self, pieces: &[Piece<'_>], all: &mut Vec<String>) -> Result<(), ExpandError> {
        let ifs = self.process.state.env.variables.text("IFS").unwrap_or(" \t\n").to_owned();
        let mut out = Splitter::new(Some(&ifs));
        self.pieces(pieces, &mut out, false)?;
        for field in out.finish() {
            if !field.globs || self.process.state.options.noglob {
                all.push(field.text);
                continue;
            }
            let found = files::expand(&self.process.state, &field.pattern);
            let cost = found.iter().map(|path| path.len() + crate::limits::WORD_COST).sum();
            self.reserve(cost)?;
            match found.is_empty() {
                true if self.process.state.options.nullglob => {}
                true => all.push(field.text),
                false => all.extend(found),
            }
        }
        Ok(())
    }

    /// A word as one text. `~` counts at its start and behind `:` and the first `=`.
    pub(super) fn assigned(&mut self, word: &Word) -> Result<String, ExpandError> {
        let mut out = Splitter::new(None);
        let pieces: Vec<Piece<'_>> = word.0.iter().map(Piece::Part).collect();
        self.pieces(&pieces, &mut out, true)?;
        Ok(out.finish().into_iter().map(|field| field.text).collect())
    }

    /// A word as a pattern, in which quoted characters stand for themselves.
    pub(super) fn pattern(&mut self, word: &Word) -> Result<Pattern, ExpandError> {
        let text = self.pattern_text(word)?;
        let extended = self.process.state.options.extglob;
        Ok(Pattern::parse(&text, extended))
    }

    fn pattern_text(&mut self, word: &Word) -> Result<String, ExpandError> {
        let mut out = Splitter::pattern();
        let pieces: Vec<Piece<'_>> = word.0.iter().map(Piece::Part).collect();
        self.pieces(&pieces, &mut out, false)?;
        Ok(out.finish().into_iter().map(|field| field.pattern).collect())
    }

    fn pieces(
        &mut self,
        pieces: &[Piece<'_>],
        out: &mut Splitter<'_>,
        assigns: bool,
    ) -> Result<(), ExpandError> {
        for (at, piece) in pieces.iter().enumerate() {
            let text: &str = match piece {
                Piece::Text(text) => text,
                Piece::Part(WordPart::Text(text)) => text,
                Piece::Part(part) => {
                    self.part(part, out, false, false)?;
                    continue;
                }
            };
            self.reserve(2 * text.len() + crate::limits::WORD_COST)?;
            if !text.contains('~') {
                out.text(text);
                continue;
            }
            let is_last = at + 1 == pieces.len();
            self.with_homes(text, out, (at == 0, assigns), is_last);
        }
        Ok(())
    }

    /// Adds text in which `~` at the start, and in assignments behind `:` and `=`, is the home folder.
    fn with_homes(&self, text: &str, out: &mut Splitter<'_>, (first, assigns): (bool, bool), is_last: bool) {
        let mut rest = text;
        let mut may = first;
        while !rest.is_empty() {
            if may && rest.starts_with('~') {
                let end = rest.find(['/', ':']).unwrap_or(rest.len());
                let home = match &rest[1..end] {
                    // The name ends with the word, or with a slash.
                    _ if end == rest.len() && !is_last => None,
                    "" => Some(self.process.state.env.variables.text("HOME").unwrap_or("~").to_owned()),
                    "root" => Some("/root".to_owned()),
                    _ => None,
                };
                if let Some(home) = home {
                    out.quoted(&home);
                    rest = &rest[end..];
                    may = false;
                    continue;
                }
            }
            let end = rest.find([':', '=']).filter(|_| assigns).map_or(rest.len(), |at| at + 1);
            out.text(&rest[..end]);
            rest = &rest[end..];
            may = assigns;
        }
    }

    /// Adds one part. `inner` says that it is in the word of an operation, whose text splits too if it is not quoted.
    fn part(
        &mut self,
        part: &WordPart,
        out: &mut Splitter<'_>,
        quoted: bool,
        inner: bool,
    ) -> Result<(), ExpandError> {
        match part {
            WordPart::Text(text) => {
                self.reserve(2 * text.len() + crate::limits::WORD_COST)?;
                match () {
                    () if quoted => out.quoted(text),
                    () if inner && text.starts_with('~') => {
                        self.with_homes(text, out, (true, false), true);
                    }
                    () if inner => out.value(text),
                    () => out.text(text),
                }
            }
            WordPart::Quoted(text) => {
                self.reserve(2 * text.len() + crate::limits::WORD_COST)?;
                out.quoted(text);
            }
            WordPart::Expanded(Expansion::Parameter(parameter), own) => {
                self.parameter(parameter, *own || quoted, out)?;
            }
            WordPart::Expanded(Expansion::Output(list), own) => {
                let text = self.output(list)?;
                self.value(&text, *own || quoted, out)?;
            }
            WordPart::Expanded(Expansion::Arithmetic(word), own) => {
                let number = self.number(word)?.to_string();
                self.value(&number, *own || quoted, out)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, text: &str, quoted: bool, out: &mut Splitter<'_>) -> Result<(), ExpandError> {
        let count = if quoted { 1 } else { out.count(text) };
        self.reserve(2 * text.len() + count * crate::limits::WORD_COST)?;
        if quoted {
            out.quoted(text);
        } else {
            out.value(text);
        }
        Ok(())
    }

    /// The output of a substitution.
    fn output(&mut self, list: &Arc<List>) -> Result<String, ExpandError> {
        let key = Arc::as_ptr(list) as usize;
        if list.is_empty() {
            self.process.output_code = Some(0);
            return Ok(String::new());
        }
        match self.process.outputs.get(&key).cloned() {
            Some(text) => {
                self.reserve(text.len())?;
                Ok(text)
            }
            None => Err(ExpandError::Output(key, Arc::clone(list))),
        }
    }

    /// The value of an arithmetic expression. Assignments in it are made once, although the word may be expanded again.
    fn number(&mut self, word: &Word) -> Result<i64, ExpandError> {
        let key = std::ptr::from_ref(word).addr();
        if let Some(known) = self.process.outputs.get(&key) {
            return Ok(known.parse().unwrap_or(0));
        }
        let text = self.assigned_quoted(word)?;
        self.reserve(4 * text.len())?;
        let state = &self.process.state;
        let found = arithmetic::evaluate(&text, &|name| lookup(state, name));
        let value = found.map_err(ExpandError::Failed)?;
        let changes = !value.assigned.is_empty();
        for (name, number) in value.assigned {
            self.assign_number(&name, number);
        }
        if changes {
            self.process.outputs.insert(key, value.value.to_string());
        }
        Ok(value.value)
    }

    fn assigned_quoted(&mut self, word: &Word) -> Result<String, ExpandError> {
        let mut out = Splitter::new(None);
        for part in &word.0 {
            self.part(part, &mut out, true, false)?;
        }
        Ok(out.finish().into_iter().map(|field| field.text).collect())
    }

    fn assign_number(&mut self, name: &str, number: i64) {
        let Some((array, index)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else {
            self.process.set(self.kernel, name, &number.to_string());
            return;
        };
        let index = index.parse().unwrap_or(0);
        let bounds = (&self.kernel.bounds, &mut self.process.room);
        let changed = self.process.state.env.variables.change(array, bounds, |variable| {
            if !matches!(variable.value, Value::Array(_)) {
                variable.value = Value::Array(std::collections::BTreeMap::new());
            }
            if let Value::Array(all) = &mut variable.value {
                all.insert(index, number.to_string());
            }
        });
        if changed.is_err() {
            self.process.complain(self.kernel, &format!("{array}: is read only"));
        }
    }
}

/// The value of a variable in arithmetic; `NAME[3]` is an element.
fn lookup(state: &super::machine::State, name: &str) -> Option<String> {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        None => parameter::special(state, name).or_else(|| state.env.variables.text(name).map(str::to_owned)),
        Some((array, index)) => match &state.env.variables.get(array)?.value {
            Value::Array(all) => all.get(&index.parse().ok()?).cloned(),
            Value::Map(all) => all.get(index).cloned(),
            Value::Text(text) => (index == "0").then(|| text.clone()),
            Value::Unset => None,
        },
    }
}

/// A text as a pattern that matches only itself.
fn literal_pattern(text: &str) -> String {
    pattern::escaped(text)
}
