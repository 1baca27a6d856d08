//! Loops and conditions of the shell language: their grammar, and how the shell's queue runs them.
//!
//! A loop adds the commands of one round to the queue, and behind them an item that decides whether there is another round.
//! So a loop without end holds no more memory than one round.

use super::memory::Reservation;
use super::parse::{Command, Connector, List, Reader, Word};
use std::collections::VecDeque;
use std::sync::Arc;

/// A loop or a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compound {
    /// `while` or, with the flag, `until`: a condition and a body.
    While(bool, Arc<List>, Arc<List>),
    /// `for NAME in WORDS`: a body.
    For(String, Vec<Word>, Arc<List>),
    /// The conditions of `if` and `elif` with their bodies, and the body of `else`.
    If(Arc<[(List, List)]>, List),
    /// `{ …; }`.
    Group(List),
}

/// Whether a command that begins with this word is a loop, a condition, or another structure.
pub(super) fn reserved(word: &str) -> bool {
    matches!(
        word,
        "while"
            | "until"
            | "for"
            | "if"
            | "{"
            | "case"
            | "function"
            | "do"
            | "done"
            | "then"
            | "elif"
            | "else"
            | "fi"
            | "}"
    )
}

impl Compound {
    /// Reads what follows the reserved word `first`.
    pub(super) fn read(first: &str, reader: &mut Reader<'_>) -> Result<Self, String> {
        match first {
            "while" | "until" => {
                let condition = block(reader, "do")?;
                Ok(Self::While(first == "until", Arc::new(condition), Arc::new(block(reader, "done")?)))
            }
            "for" => {
                let head = reader.head()?;
                let [name, word, values @ ..] = head.as_slice() else {
                    return Err("\"for\" without \"in\"".to_owned());
                };
                let name = name.plain().ok_or("bad variable name")?.to_owned();
                let named = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !named || word.plain() != Some("in") {
                    return Err("\"for\" without \"in\"".to_owned());
                }
                reader.expect("do")?;
                Ok(Self::For(name, values.to_vec(), Arc::new(block(reader, "done")?)))
            }
            "if" => {
                let (mut arms, mut otherwise) = (Vec::new(), Vec::new());
                let mut end = "elif".to_owned();
                while end == "elif" {
                    let condition = block(reader, "then")?;
                    let (body, word) = reader.list(&["elif", "else", "fi"])?;
                    arms.push((condition, body));
                    end = word;
                }
                if end == "else" {
                    otherwise = block(reader, "fi")?;
                }
                Ok(Self::If(arms.into(), otherwise))
            }
            "{" => Ok(Self::Group(block(reader, "}")?)),
            "case" | "function" => Err(format!("the simulated shell does not know {first:?}")),
            word => Err(format!("unexpected {word:?}")),
        }
    }

    /// The commands in all its parts.
    fn lists(&self) -> Vec<&List> {
        match self {
            Self::While(_, condition, body) => vec![condition, body],
            Self::For(_, _, body) => vec![body],
            Self::If(arms, otherwise) => {
                let arms = arms.iter().flat_map(|(condition, body)| [condition, body]);
                arms.chain([otherwise]).collect()
            }
            Self::Group(list) => vec![list],
        }
    }
}

fn block(reader: &mut Reader<'_>, end: &str) -> Result<List, String> {
    let (list, _) = reader.list(&[end])?;
    if list.is_empty() { Err(format!("unexpected {end:?}")) } else { Ok(list) }
}

/// All single commands of a list, also those in loops, conditions and substitutions; and the values of all `for`.
pub(super) fn single_commands(list: &List) -> (Vec<&Command>, Vec<&Word>) {
    let (mut found, mut all_values) = (Vec::new(), Vec::new());
    let mut lists = vec![list];
    while let Some(list) = lists.pop() {
        for (_, command) in list {
            let mut words: Vec<&Word> = command.words.iter().collect();
            match &command.compound {
                Some(compound) => {
                    lists.extend(compound.lists());
                    if let Compound::For(_, values, _) = compound {
                        words.extend(values);
                        all_values.extend(values);
                    }
                }
                None => found.push(command.as_ref()),
            }
            lists.extend(words.into_iter().flat_map(Word::substitutions));
        }
    }
    (found, all_values)
}

/// The remaining values of a `for`, with their memory.
#[derive(Debug)]
pub(super) struct ForValues {
    pub(super) values: VecDeque<String>,
    pub(super) _room: Reservation,
}

/// An entry of the shell's queue.
#[derive(Debug)]
pub(super) enum Item {
    /// A command that has not started.
    Command(Connector, Arc<Command>),
    /// Inverts the exit code of the command before it.
    Negate,
    /// The condition of a `while` has run; with the exit code of the latest round.
    Condition(Compound, u8),
    /// The body of a `while` has run.
    Round(Compound),
    /// The remaining values of a `for`.
    Next(String, ForValues, Arc<List>),
    /// The condition of the arm with this index has run.
    Arm(Arc<[(List, List)]>, List, usize),
}

impl Item {
    /// Whether the item is where a loop decides about its next round.
    pub(super) fn ends_round(&self) -> bool {
        matches!(self, Self::Condition(..) | Self::Round(_) | Self::Next(..))
    }

    /// Whether the item reads the output of the command before it.
    pub(super) fn is_piped(&self) -> bool {
        matches!(self, Self::Command(Connector::Pipe, _))
    }
}

/// The queue of a shell.
pub(super) type Queue = VecDeque<Item>;

/// Puts a list in front of the queue.
pub(super) fn prepend(queue: &mut Queue, list: &[(Connector, Arc<Command>)]) {
    for (connector, command) in list.iter().rev() {
        queue.push_front(Item::Command(*connector, Arc::clone(command)));
    }
}

/// `break` or `continue`: drops the commands of the round. Returns false outside of a loop.
pub(super) fn leave_round(queue: &mut Queue, ends: bool) -> bool {
    let Some(at) = queue.iter().position(Item::ends_round) else { return false };
    queue.drain(..at + usize::from(ends));
    true
}
