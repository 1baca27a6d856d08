//! Regular expressions in the RE2 syntax of Go's `regexp`, compiled by the `regex` crate. Both match in
//! linear time and share most of the syntax. This module translates the differences (classes such as `\d` are
//! ASCII in Go, braces that are not a repetition are literal) and refuses what Go refuses, with Go's
//! messages.

mod class;

use self::class::{bracketed, class_escape};
use crate::limits::CHECKED_PATTERNS_BYTES_MAX;
use regex::{Regex, RegexBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::CharIndices;
use std::sync::{Mutex, PoisonError};

/// Highest repetition that Go allows; nested repetitions multiply.
const REPEAT_MAX: u32 = 1000;
/// Deepest nesting of groups that Go allows.
const NESTING_MAX: usize = 1000;
/// Bytes of a compiled expression; bounds the memory of repeated large classes.
const PROGRAM_BYTES_MAX: usize = 10 << 20;

/// Compiles a pattern of Go's syntax.
///
/// # Errors
/// Go refuses the pattern, or its program would be too large. The text is Go's: ``error parsing regexp: missing closing ): `(` ``.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    let regex = RegexBuilder::new(&translated).size_limit(PROGRAM_BYTES_MAX).nest_limit(250).build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => fault("expression too large", pattern),
        _ => fault("invalid regexp", pattern),
    })
}

/// Checks a pattern like [`compile`]. The results of recent checks are remembered: each write of a definition checks all its patterns,
/// and a large class with repetitions takes a tenth of a second.
///
/// # Errors
/// Those of [`compile`].
pub fn check(pattern: &str) -> Result<(), String> {
    static CHECKED: Mutex<Checked> = Mutex::new(Checked { results: BTreeMap::new(), bytes: 0 });
    let known = CHECKED.lock().unwrap_or_else(PoisonError::into_inner).results.get(pattern).cloned();
    known.unwrap_or_else(|| {
        let result = compile(pattern).map(drop);
        CHECKED.lock().unwrap_or_else(PoisonError::into_inner).remember(pattern, &result);
        result
    })
}

/// Results of checks by pattern.
struct Checked {
    results: BTreeMap<Box<str>, Result<(), String>>,
    /// Bytes of the patterns and errors.
    bytes: usize,
}

impl Checked {
    /// Adds a result; forgets all others first if there is no room for it.
    fn remember(&mut self, pattern: &str, result: &Result<(), String>) {
        let bytes = pattern.len() + result.as_ref().err().map_or(0, String::len);
        if self.bytes + bytes > CHECKED_PATTERNS_BYTES_MAX {
            self.results.clear();
            self.bytes = 0;
        }
        if bytes <= CHECKED_PATTERNS_BYTES_MAX
            && self.results.insert(pattern.into(), result.clone()).is_none()
        {
            self.bytes += bytes;
        }
    }
}

/// Translates a pattern to the syntax of the `regex` crate.
///
/// # Errors
/// Those of [`compile`].
pub fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator {
        pattern,
        chars: pattern.char_indices().peekable(),
        out: String::with_capacity(pattern.len() + 8),
        groups: Vec::new(),
        names: BTreeSet::new(),
        operand: Operand::Nothing,
    };
    translator.run()?;
    Ok(translator.out)
}

fn fault(what: &str, fragment: &str) -> String {
    if what == "expression too large" || what == "expression nests too deeply" {
        return format!("error parsing regexp: {what}");
    }
    format!("error parsing regexp: {what}: `{fragment}`")
}

/// The preceding item, to which a repetition operator would apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// The start of a group or an alternative.
    Nothing,
    /// An expression without a repetition operator; the number is the product of repetitions inside it.
    Single(u32),
    /// A repetition that starts at this byte, with its product of repetitions.
    Repeated(usize, u32),
}

impl Operand {
    const fn repeats(self) -> u32 {
        match self {
            Self::Nothing => 1,
            Self::Single(repeats) | Self::Repeated(_, repeats) => repeats,
        }
    }
}

/// An open group.
struct Group {
    /// Highest product of repetitions among its parts so far.
    repeats: u32,
}

struct Translator<'p> {
    pattern: &'p str,
    chars: Peekable<CharIndices<'p>>,
    out: String,
    groups: Vec<Group>,
    /// Names of groups, which must be unique.
    names: BTreeSet<&'p str>,
    operand: Operand,
}

impl<'p> Translator<'p> {
    fn run(&mut self) -> Result<(), String> {
        while let Some((at, c)) = self.chars.next() {
            match c {
                '\\' => self.escape(at)?,
                '[' => self.class(at)?,
                '(' => self.open(at)?,
                ')' => self.close()?,
                '|' => self.alternative(),
                '*' | '+' | '?' => self.repetition(at, 1)?,
                '{' => self.braces(at)?,
                _ => self.literal(c),
            }
        }
        match self.groups.is_empty() {
            true => Ok(()),
            false => Err(fault("missing closing )", self.pattern)),
        }
    }

    fn rest(&mut self) -> &'p str {
        self.chars.peek().map_or("", |(at, _)| &self.pattern[*at..])
    }

    fn skip(&mut self, bytes: usize) {
        let end = self.pattern.len() - self.rest().len() + bytes;
        while self.chars.next_if(|(at, _)| *at < end).is_some() {}
    }

    fn put(&mut self, text: &str) {
        self.record_repeats();
        self.out.push_str(text);
        self.operand = Operand::Single(1);
    }

    /// Records the repetitions of the last operand in its group.
    fn record_repeats(&mut self) {
        let repeats = self.operand.repeats();
        if let Some(group) = self.groups.last_mut() {
            group.repeats = group.repeats.max(repeats);
        }
    }

    fn literal(&mut self, c: char) {
        match c {
            '^' | '$' | '.' => self.put(c.encode_utf8(&mut [0; 4])),
            _ => {
                let text = regex::escape(c.encode_utf8(&mut [0; 4]));
                self.put(&text);
            }
        }
    }

    fn alternative(&mut self) {
        self.record_repeats();
        self.out.push('|');
        self.operand = Operand::Nothing;
    }

    fn close(&mut self) -> Result<(), String> {
        self.record_repeats();
        let group = self.groups.pop().ok_or_else(|| fault("unexpected )", self.pattern))?;
        self.out.push(')');
        self.operand = Operand::Single(group.repeats);
        Ok(())
    }

    fn open(&mut self, at: usize) -> Result<(), String> {
        if self.groups.len() >= NESTING_MAX {
            return Err(fault("expression nests too deeply", self.pattern));
        }
        self.record_repeats();
        let rest = self.rest();
        if !rest.starts_with('?') {
            self.out.push('(');
        } else if rest.starts_with("?P<") || rest.starts_with("?<") {
            self.named_group(at)?;
        } else if self.flags(at)? {
            return Ok(());
        }
        self.groups.push(Group { repeats: 1 });
        self.operand = Operand::Nothing;
        Ok(())
    }

    fn named_group(&mut self, at: usize) -> Result<(), String> {
        let rest = &self.pattern[at..];
        let start = rest.find('<').unwrap_or_default() + 1;
        let end = rest.find('>').ok_or_else(|| fault("invalid named capture", rest))?;
        let name = &rest[start.min(end)..end];
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.is_empty() || !is_word || !self.names.insert(name) {
            return Err(fault("invalid named capture", &rest[..=end]));
        }
        // The name does not affect matching, and Go allows names that begin with a digit.
        self.out.push('(');
        self.skip(end);
        Ok(())
    }

    /// Translates flags of a group; true if the group ends with them.
    fn flags(&mut self, at: usize) -> Result<bool, String> {
        let rest = &self.pattern[at..];
        let refused = |end: usize| Err(fault("invalid or unsupported Perl syntax", &rest[..end]));
        let (mut is_negated, mut has_flag) = (false, false);
        for (offset, c) in rest.char_indices().skip(2) {
            match c {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !is_negated => (is_negated, has_flag) = (true, false),
                ':' | ')' if is_negated && !has_flag => return refused(offset + 1),
                ':' | ')' => {
                    self.skip(offset);
                    let is_end = c == ')';
                    // `(?)` sets no flag, and the `regex` crate has no such form.
                    let text = if &rest[..=offset] == "(?)" { "(?:)" } else { &rest[..=offset] };
                    self.out.push_str(text);
                    return Ok(is_end);
                }
                _ => return refused(offset + c.len_utf8()),
            }
        }
        refused(rest.len())
    }

    /// Translates a repetition whose operator starts at `at` and is `length` bytes long.
    fn repetition(&mut self, at: usize, length: usize) -> Result<(), String> {
        let lazy = self.chars.next_if(|(_, c)| *c == '?').is_some();
        let end = at + length + usize::from(lazy);
        match self.operand {
            Operand::Nothing => {
                return Err(fault("missing argument to repetition operator", &self.pattern[at..end]));
            }
            Operand::Repeated(start, _) => {
                return Err(fault("invalid nested repetition operator", &self.pattern[start..end]));
            }
            Operand::Single(_) => {}
        }
        self.out.push_str(&self.pattern[at..end]);
        self.operand = Operand::Repeated(at, self.operand.repeats());
        Ok(())
    }

    /// Translates a counted repetition, or a literal brace.
    fn braces(&mut self, at: usize) -> Result<(), String> {
        let Some((low, high, length)) = counts(&self.pattern[at..]) else {
            self.literal('{');
            return Ok(());
        };
        let text = &self.pattern[at..at + length];
        let size = |count: Option<u32>| count.is_some_and(|count| count > REPEAT_MAX);
        if size(Some(low)) || size(high) || high.is_some_and(|high| high < low) {
            return Err(fault("invalid repeat count", text));
        }
        self.skip(length - 1);
        let inner = self.operand.repeats();
        self.repetition(at, length)?;
        let repeats = inner.saturating_mul(high.unwrap_or(low).max(1));
        if repeats > REPEAT_MAX {
            return Err(fault("invalid repeat count", text));
        }
        self.operand = Operand::Repeated(at, repeats);
        Ok(())
    }

    fn escape(&mut self, at: usize) -> Result<(), String> {
        let rest = &self.pattern[at..];
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let text = quoted.split("\\E").next().unwrap_or_default();
            self.skip(1 + text.len() + if quoted.len() > text.len() { 2 } else { 0 });
            text.chars().for_each(|c| self.put(&regex::escape(c.encode_utf8(&mut [0; 4]))));
            return Ok(());
        }
        let simple = match rest.as_bytes().get(1) {
            Some(b'A') => r"\A",
            Some(b'z') => r"\z",
            Some(b'b') => r"(?-u:\b)",
            Some(b'B') => r"(?-u:\B)",
            _ => {
                let (text, length) = class_escape(rest)?;
                self.skip(length - 1);
                self.put(&text);
                return Ok(());
            }
        };
        self.skip(1);
        self.put(simple);
        Ok(())
    }

    /// Translates a class in brackets.
    fn class(&mut self, at: usize) -> Result<(), String> {
        let rest = &self.pattern[at..];
        let (text, length) = bracketed(rest)?;
        self.skip(length - 1);
        self.put(&text);
        Ok(())
    }
}

/// Parses the counts of `{2}`, `{2,}` or `{2,3}`, and their length; `None` if the brace is literal.
fn counts(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let inner = text.strip_prefix('{')?.split('}').next()?;
    text.as_bytes().get(inner.len() + 1)?;
    let (low, high) = match inner.split_once(',') {
        None => (count(inner)?, Some(count(inner)?)),
        Some((low, "")) => (count(low)?, None),
        Some((low, high)) => (count(low)?, Some(count(high)?)),
    };
    Some((low, high, inner.len() + 2))
}

fn count(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
    (is_number && !has_leading_zero).then(|| digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
