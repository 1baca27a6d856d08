//! Runs awk programs: records, fields, variables, statements and expressions.

use super::tree::{Expr, Pattern, Program, Statement};
use super::value::Value;
use crate::shell::memory::{Buffer, Reservation};
use crate::shell::regex::Regex;
use crate::shell::tools::printf::conversion;
use crate::shell::tools::{Outcome, ToolCall};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why the statements of a block do not go on.
#[derive(Debug)]
pub(super) enum Stop {
    Next,
    NextFile,
    Break,
    Continue,
    Exit,
    Return(Value),
    Error(String),
    Killed,
}

/// A variable of a function or of the program.
#[derive(Clone, Debug, Default)]
pub(super) enum Cell {
    #[default]
    Unset,
    One(Value),
    /// The array with this number.
    Array(usize),
}

pub(super) struct Run<'a> {
    pub(super) call: &'a ToolCall<'a>,
    pub(super) program: &'a Program,
    pub(super) globals: BTreeMap<String, Cell>,
    /// The variables of the functions that run.
    pub(super) frames: Vec<BTreeMap<String, Cell>>,
    pub(super) arrays: Vec<BTreeMap<String, Value>>,
    pub(super) record: String,
    /// `None` until a field is needed.
    pub(super) fields: Option<Vec<Value>>,
    /// The input that is read now.
    pub(super) input: Arc<[u8]>,
    pub(super) at: usize,
    pub(super) files: std::collections::VecDeque<String>,
    pub(super) has_input: bool,
    pub(super) out: Buffer,
    pub(super) err: String,
    pub(super) seed: u64,
    /// Files that `getline` reads: their bytes and the place.
    pub(super) readers: BTreeMap<String, (Arc<[u8]>, usize)>,
    /// Files that were written.
    pub(super) writers: std::collections::BTreeSet<String>,
    pub(super) room: Reservation,
    pub(super) code: u8,
    /// Compiled expressions of texts.
    pub(super) regexes: BTreeMap<String, Regex>,
    /// Ranges that are open.
    pub(super) ranges: Vec<bool>,
}

pub(super) fn run(
    call: &ToolCall<'_>,
    program: &Program,
    assigned: &[(char, String)],
    files: Vec<String>,
) -> Outcome {
    let bounds = call.env.bounds();
    let mut run = Run {
        call,
        program,
        globals: BTreeMap::new(),
        frames: Vec::new(),
        arrays: Vec::new(),
        record: String::new(),
        fields: None,
        input: Arc::default(),
        at: 0,
        files: files.clone().into(),
        has_input: false,
        out: Buffer::new(&bounds),
        err: String::new(),
        seed: 0,
        readers: BTreeMap::new(),
        writers: std::collections::BTreeSet::new(),
        room: Reservation::new(&bounds.allowance),
        code: 0,
        regexes: BTreeMap::new(),
        ranges: program.rules.iter().map(|_| false).collect(),
    };
    let result = run.start(assigned, &files).and_then(|()| run.all());
    if let Err(Stop::Error(why)) = result {
        run.err.push_str(&format!("awk: {why}\n"));
        run.code = 2;
    }
    Outcome { err: run.err, code: run.code, ..Outcome::reserved(run.out) }
}

impl<'a> Run<'a> {
    pub(super) fn start(&mut self, assigned: &[(char, String)], files: &[String]) -> Result<(), Stop> {
        let text = |text: &str| Value::Text(text.to_owned());
        for (name, value) in [
            ("FS", " "),
            ("OFS", " "),
            ("ORS", "\n"),
            ("RS", "\n"),
            ("SUBSEP", "\u{1c}"),
            ("CONVFMT", "%.6g"),
            ("OFMT", "%.6g"),
        ] {
            self.set(name, text(value))?;
        }
        for (flag, value) in assigned {
            match flag {
                'F' => {
                    let separator = if value == "t" { "\t".to_owned() } else { unescaped(value) };
                    self.set("FS", Value::Text(separator))?;
                }
                _ => self.assign_word(value)?,
            }
        }
        let mut arguments: BTreeMap<String, Value> = BTreeMap::new();
        arguments.insert("0".to_owned(), text("awk"));
        arguments.extend(
            files.iter().enumerate().map(|(at, file)| ((at + 1).to_string(), Value::Input(file.clone()))),
        );
        #[expect(clippy::cast_precision_loss, reason = "arguments are few")]
        self.set("ARGC", Value::Number(arguments.len() as f64))?;
        self.set_array("ARGV", arguments);
        let environment = self.call.env.variables.environment().into_iter();
        let environment =
            environment.map(|(name, value)| (name.to_owned(), Value::Input(value.to_owned()))).collect();
        self.set_array("ENVIRON", environment);
        Ok(())
    }

    pub(super) fn set_array(&mut self, name: &str, all: BTreeMap<String, Value>) {
        self.arrays.push(all);
        self.globals.insert(name.to_owned(), Cell::Array(self.arrays.len() - 1));
    }

    /// `NAME=value` of `-v` or among the files.
    pub(super) fn assign_word(&mut self, word: &str) -> Result<(), Stop> {
        match word.split_once('=') {
            Some((name, value)) => self.set(name, Value::Input(unescaped(value))),
            None => Err(Stop::Error(format!("invalid assignment '{word}'"))),
        }
    }

    pub(super) fn all(&mut self) -> Result<(), Stop> {
        let program = self.program;
        let mut result = program.begin.iter().try_for_each(|block| self.statement(block, 0));
        if result.is_ok() && program.reads() {
            result = self.records();
        }
        if matches!(result, Ok(()) | Err(Stop::Exit))
            && !matches!(result, Err(Stop::Exit) if program.end.is_empty())
        {
            let ended = matches!(result, Err(Stop::Exit));
            let code = self.code;
            // `exit` in the main part still runs `END`.
            let last = program.end.iter().try_for_each(|block| self.statement(block, 0));
            if ended && self.code == 0 {
                self.code = code;
            }
            return last;
        }
        result
    }

    pub(super) fn records(&mut self) -> Result<(), Stop> {
        let program = self.program;
        while self.next_record()? {
            let result = self.rules(program);
            match result {
                Ok(()) | Err(Stop::Next) => {}
                Err(Stop::NextFile) => self.at = self.input.len(),
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    pub(super) fn rules(&mut self, program: &Program) -> Result<(), Stop> {
        for (at, (pattern, body)) in program.rules.iter().enumerate() {
            let matches = match pattern {
                Pattern::Always => true,
                Pattern::Expr(expr) => self.eval(expr, 0)?.is_true(),
                Pattern::Range(first, last) => {
                    let begins = self.ranges[at] || self.eval(first, 0)?.is_true();
                    if begins {
                        self.ranges[at] = !self.eval(last, 0)?.is_true();
                    }
                    begins
                }
            };
            if !matches {
                continue;
            }
            match body {
                Some(body) => self.statement(body, 0)?,
                None => self.print(&[], None)?,
            }
        }
        Ok(())
    }

    /// Takes work for a step.
    pub(super) fn spend(&self, units: usize) -> Result<(), Stop> {
        if self.call.env.work.spend(units) { Ok(()) } else { Err(Stop::Killed) }
    }

    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Stop> {
        let bounds = self.call.env.bounds();
        if bounds.work.spend(bytes + 16) && bounds.grow(&mut self.room, bytes) {
            Ok(())
        } else {
            Err(Stop::Killed)
        }
    }

    pub(super) fn next_record(&mut self) -> Result<bool, Stop> {
        let Some(text) = self.read()? else { return Ok(false) };
        self.set_record(text)?;
        Ok(true)
    }

    pub(super) fn set_record(&mut self, text: String) -> Result<(), Stop> {
        self.record = text;
        self.fields = None;
        Ok(())
    }

    pub(super) fn split_record(&mut self) -> Result<usize, Stop> {
        if let Some(fields) = &self.fields {
            return Ok(fields.len());
        }
        let separator = self.variable("FS");
        let separator = self.text(&separator);
        let record = std::mem::take(&mut self.record);
        let parts = self.split(&record, &separator);
        self.record = record;
        let parts = parts?;
        let count = parts.len();
        self.fields = Some(parts.into_iter().map(Value::Input).collect());
        Ok(count)
    }

    pub(super) fn compiled(&mut self, text: &str) -> Result<Regex, Stop> {
        if let Some(known) = self.regexes.get(text) {
            return Ok(known.clone());
        }
        self.spend(32 * text.len() + 100)?;
        let regex = Regex::extended(text, false).map_err(Stop::Error)?;
        if self.regexes.len() < 64 {
            self.regexes.insert(text.to_owned(), regex.clone());
        }
        Ok(regex)
    }

    /// A number that is not whole, as text.
    pub(super) fn formatted(&self, name: &str, number: f64) -> String {
        let format = match self.globals.get(name) {
            Some(Cell::One(Value::Text(format) | Value::Input(format))) => format.clone(),
            _ => "%.6g".to_owned(),
        };
        let mut out = Buffer::new(&self.call.env.bounds());
        let (head, tail) = format.split_once('%').unwrap_or((&format, "g"));
        let (conversion, letter, tail) = conversion(tail, &mut || 0);
        conversion.real(number, letter.unwrap_or('g'), &mut out);
        format!("{head}{}{tail}", String::from_utf8_lossy(out.as_ref()))
    }

    pub(super) fn text(&self, value: &Value) -> String {
        value.text(&|number| self.formatted("CONVFMT", number))
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
        self.frames.last().is_some_and(|frame| frame.contains_key(name))
    }

    pub(super) fn cells(&mut self, name: &str) -> &mut BTreeMap<String, Cell> {
        match self.is_local(name) {
            true => self.frames.last_mut().expect("it has the variable"),
            false => &mut self.globals,
        }
    }

    pub(super) fn variable(&self, name: &str) -> Value {
        let frame = self.frames.last().filter(|frame| frame.contains_key(name)).unwrap_or(&self.globals);
        match frame.get(name) {
            Some(Cell::One(value)) => value.clone(),
            Some(Cell::Array(_) | Cell::Unset) | None => Value::Unset,
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<(), Stop> {
        let length = value.length() + name.len() + 64;
        if name == "NF" && !self.is_local(name) {
            return self.set_count(value.number());
        }
        let old = match self.cells(name).get(name) {
            Some(Cell::One(old)) => old.length() + name.len() + 64,
            Some(Cell::Array(_)) => return Err(Stop::Error(format!("can't use array '{name}' as a scalar"))),
            Some(Cell::Unset) | None => 0,
        };
        self.room.shrink(old);
        self.grow(length)?;
        self.cells(name).insert(name.to_owned(), Cell::One(value));
        Ok(())
    }

    /// The number of the array with this name, which is made if there is none.
    pub(super) fn array(&mut self, name: &str) -> Result<usize, Stop> {
        match self.cells(name).get(name) {
            Some(Cell::Array(number)) => return Ok(*number),
            Some(Cell::One(_)) => return Err(Stop::Error(format!("can't use scalar '{name}' as an array"))),
            Some(Cell::Unset) | None => {}
        }
        self.grow(256)?;
        self.arrays.push(BTreeMap::new());
        let number = self.arrays.len() - 1;
        self.cells(name).insert(name.to_owned(), Cell::Array(number));
        Ok(number)
    }

    /// Closes a file, so that it is read from its start again.
    pub(super) fn close(&mut self, name: &str) {
        self.readers.remove(name);
        self.writers.remove(name);
    }

    pub(super) fn print(&mut self, arguments: &[Expr], target: Option<&(Expr, bool)>) -> Result<(), Stop> {
        let mut text = String::new();
        let separator = self.variable("OFS");
        let separator = self.text(&separator);
        for (at, expr) in arguments.iter().enumerate() {
            if at > 0 {
                text.push_str(&separator);
            }
            let value = self.eval(expr, 0)?;
            text.push_str(&value.text(&|number| self.formatted("OFMT", number)));
            self.spend(text.len() / 8)?;
        }
        if arguments.is_empty() {
            text.push_str(&self.record);
        }
        let end = self.variable("ORS");
        text.push_str(&self.text(&end));
        self.write(text.as_bytes(), target)
    }

    pub(super) fn write(&mut self, bytes: &[u8], target: Option<&(Expr, bool)>) -> Result<(), Stop> {
        let Some((file, appends)) = target else {
            return if self.out.push(bytes) { Ok(()) } else { Err(Stop::Killed) };
        };
        let name = self.eval(file, 0)?;
        let name = self.text(&name);
        let env = self.call.env;
        match name.as_str() {
            "/dev/stdout" | "-" => return if self.out.push(bytes) { Ok(()) } else { Err(Stop::Killed) },
            "/dev/stderr" => {
                self.grow(bytes.len())?;
                self.err.push_str(&String::from_utf8_lossy(bytes));
                return Ok(());
            }
            _ => {}
        }
        let path = env.path(&name);
        self.grow(64)?;
        let is_new = self.writers.insert(name.clone());
        let written = if is_new && !appends { env.write(&path, bytes) } else { env.append(&path, bytes) };
        written.map_err(|why| Stop::Error(format!("can't redirect to '{name}': {why}")))
    }

    pub(super) fn statement(&mut self, statement: &Statement, depth: usize) -> Result<(), Stop> {
        self.spend(200)?;
        match statement {
            Statement::Expr(expr) => self.eval(expr, depth).map(drop),
            Statement::Print(arguments, false, target) => self.print(arguments, target.as_ref()),
            Statement::Print(arguments, true, target) => {
                let text = self.sprintf(arguments, depth)?;
                self.write(text.as_bytes(), target.as_ref())
            }
            Statement::Block(all) => {
                all.iter().try_for_each(|statement| self.statement(statement, depth + 1))
            }
            Statement::If(condition, then, otherwise) => match self.eval(condition, depth)?.is_true() {
                true => self.statement(then, depth + 1),
                false => otherwise.as_ref().map_or(Ok(()), |otherwise| self.statement(otherwise, depth + 1)),
            },
            Statement::While(condition, body) => {
                while self.eval(condition, depth)?.is_true() {
                    if self.is_left(body, depth)? {
                        break;
                    }
                }
                Ok(())
            }
            Statement::Do(body, condition) => loop {
                if self.is_left(body, depth)? || !self.eval(condition, depth)?.is_true() {
                    return Ok(());
                }
            },
            Statement::For(first, condition, step, body) => {
                if let Some(first) = first {
                    self.statement(first, depth + 1)?;
                }
                while condition
                    .as_ref()
                    .map_or(Ok(true), |condition| self.eval(condition, depth).map(|value| value.is_true()))?
                {
                    if self.is_left(body, depth)? {
                        break;
                    }
                    if let Some(step) = step {
                        self.statement(step, depth + 1)?;
                    }
                }
                Ok(())
            }
            Statement::ForIn(name, array, body) => self.for_in(name, array, body, depth),
            Statement::Delete(name, index) => self.delete(name, index.as_deref(), depth),
            Statement::Next => Err(Stop::Next),
            Statement::NextFile => Err(Stop::NextFile),
            Statement::Break => Err(Stop::Break),
            Statement::Continue => Err(Stop::Continue),
            Statement::Exit(code) => {
                if let Some(code) = code {
                    #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
                    let code = self.eval(code, depth)?.number() as i64;
                    self.code = code.to_le_bytes()[0];
                }
                Err(Stop::Exit)
            }
            Statement::Return(value) => {
                let value = value.as_ref().map_or(Ok(Value::Unset), |value| self.eval(value, depth))?;
                Err(Stop::Return(value))
            }
        }
    }

    fn for_in(&mut self, name: &str, array: &str, body: &Statement, depth: usize) -> Result<(), Stop> {
        let array = self.array(array)?;
        let cost: usize = self.arrays[array].keys().map(|key| key.len() + 32).sum();
        let _room = self.call.env.memory.hold(cost).ok_or(Stop::Killed)?;
        self.spend(cost)?;
        let mut keys: Vec<String> = self.arrays[array].keys().cloned().collect();
        // Numbers in their order, before texts.
        keys.sort_by(|one, other| match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one.total_cmp(&other),
            (Ok(_), Err(_)) => std::cmp::Ordering::Less,
            (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(other),
        });
        for key in keys {
            self.set(name, Value::Input(key))?;
            if self.is_left(body, depth)? {
                break;
            }
        }
        Ok(())
    }

    fn delete(&mut self, name: &str, index: Option<&[super::tree::Expr]>, depth: usize) -> Result<(), Stop> {
        let array = self.array(name)?;
        match index {
            None => self.arrays[array].clear(),
            Some(index) => {
                let key = self.subscript(index, depth)?;
                self.arrays[array].remove(&key);
            }
        }
        Ok(())
    }

    /// Runs the body of a loop. Returns whether `break` has left it.
    pub(super) fn is_left(&mut self, body: &Statement, depth: usize) -> Result<bool, Stop> {
        match self.statement(body, depth + 1) {
            Ok(()) | Err(Stop::Continue) => Ok(false),
            Err(Stop::Break) => Ok(true),
            Err(stop) => Err(stop),
        }
    }
}

fn unescaped(text: &str) -> String {
    use crate::shell::escape::{Escapes, replaced};
    String::from_utf8_lossy(&replaced(text, Escapes::Format).0).into_owned()
}

impl Run<'_> {
    /// The number of elements, if the variable is an array.
    pub(super) fn array_length(&mut self, name: &str) -> Option<usize> {
        let number = match self.cells(name).get(name) {
            Some(Cell::Array(number)) => *number,
            _ => return None,
        };
        Some(self.arrays[number].len())
    }
}
