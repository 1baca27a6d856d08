//! The shell language: the tree of a script, and the parser that makes it. `text` has the parser's place in the text, `word` reads
//! words with quotes and expansions, `parameter` reads `${…}`, `command` simple commands and lists, `compound` loops and conditions,
//! `inspect` finds all commands of a tree.
//!
//! A script is parsed line by line while it runs, as a real shell does: an error in a later line does not stop the earlier ones.

mod command;
mod compound;
mod inspect;
mod parameter;
mod text;
mod word;

pub(super) use inspect::inspect;
use std::sync::{Arc, OnceLock};
pub(super) use text::{Parser, SyntaxError, TOO_DEEP};
pub(super) use word::{arithmetic_text, here_document};

/// Which shell's language is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Busybox' `ash`: POSIX and a few more words.
    #[default]
    Ash,
    /// `bash`: with arrays, `((…))`, braces and `<<<`.
    Bash,
}

/// Commands in the order in which they run.
pub(super) type List = Vec<ListEntry>;

/// Pipelines that `&&` and `||` connect.
#[derive(Debug)]
pub(super) struct ListEntry {
    pub(super) first: Pipeline,
    /// The flag is true for `&&`.
    pub(super) rest: Vec<(bool, Pipeline)>,
    /// Whether `&` ends the entry.
    pub(super) background: bool,
}

/// Commands that `|` connects.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// Whether `!` precedes the pipeline.
    pub(super) negated: bool,
    pub(super) commands: Vec<Arc<Command>>,
}

/// One command with its redirections.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) kind: CommandKind,
    pub(super) redirects: Vec<Redirect>,
    /// The line of the script on which the command begins, from 1.
    pub(super) line: usize,
}

/// The kinds of commands.
#[derive(Debug)]
pub(super) enum CommandKind {
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// `( … )`.
    Subshell(Arc<List>),
    /// `{ …; }`.
    Group(Arc<List>),
    /// The conditions of `if` and `elif` with their bodies, and the body of `else`.
    If(Vec<(Arc<List>, Arc<List>)>, Arc<List>),
    /// `while` or, with the flag, `until`: a condition and a body.
    While(bool, Arc<List>, Arc<List>),
    /// `for NAME in WORDS`; without words over the positional parameters.
    For(String, Option<Vec<Word>>, Arc<List>),
    /// `for ((start; condition; step))`.
    ArithmeticFor([Word; 3], Arc<List>),
    /// `case WORD in …`.
    Case(Word, Vec<CaseArm>),
    /// A function's definition.
    Function(String, Arc<Command>),
    /// `((expression))`.
    Arithmetic(Word),
    /// `[[ … ]]`: its words and operators; the flag says that the word may be an operator.
    Test(Vec<(Word, bool)>),
}

/// One arm of a `case`.
#[derive(Debug)]
pub(super) struct CaseArm {
    pub(super) patterns: Vec<Word>,
    pub(super) body: Arc<List>,
    /// Whether `;&` ends the arm: the next arm's body runs too.
    pub(super) falls_through: bool,
}

/// `NAME=value`, `NAME+=value`, or an element or list of an array.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// The subscript of `NAME[…]=value`.
    pub(super) index: Option<Word>,
    pub(super) appends: bool,
    pub(super) value: AssignedValue,
}

/// What an assignment assigns.
#[derive(Debug)]
pub(super) enum AssignedValue {
    Text(Word),
    /// The elements of `NAME=(…)`, with their subscripts if they have some.
    List(Vec<(Option<Word>, Word)>),
}

/// A redirection of a descriptor.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) descriptor: u32,
    pub(super) target: RedirectTarget,
}

/// What a descriptor is redirected to.
#[derive(Debug)]
pub(super) enum RedirectTarget {
    /// `<`.
    Read(Word),
    /// `>`; the flag is true for `>|`.
    Write(Word, bool),
    /// `>>`.
    Append(Word),
    /// `<>`.
    ReadWrite(Word),
    /// `>&` and `<&`: another descriptor, or `-`.
    Duplicate(Word),
    /// `&>`: standard output and standard error; the flag is true for `&>>`.
    Both(Word, bool),
    /// `<<`: the text, which is read after the line.
    HereDocument(Arc<OnceLock<Word>>),
    /// `<<<`.
    HereString(Word),
}

/// A word that is not expanded yet.
#[derive(Debug, Default)]
pub(super) struct Word(pub(super) Vec<WordPart>);

#[derive(Debug)]
pub(super) enum WordPart {
    /// Unquoted text, in which patterns and `~` count.
    Text(String),
    Quoted(String),
    /// The flag says whether it is in double quotes, where blanks do not split its value.
    Expanded(Expansion, bool),
}

/// A part of a word that is replaced when its command runs.
#[derive(Debug)]
pub(super) enum Expansion {
    /// `$NAME` and `${NAME…}`.
    Parameter(Box<Parameter>),
    /// `$(commands)`: what the commands print.
    Output(Arc<List>),
    /// `$((expression))`: its text, whose expansions are not replaced yet.
    Arithmetic(Word),
}

/// A parameter with its operation.
#[derive(Debug)]
pub(super) struct Parameter {
    /// The name of a variable, digits, or one of `@ * # ? - $ !`.
    pub(super) name: String,
    /// The subscript.
    pub(super) index: Option<Word>,
    /// `${!NAME}`: the variable whose name is the value.
    pub(super) indirect: bool,
    pub(super) operation: Operation,
}

/// What `${NAME…}` does with the value.
#[derive(Debug)]
pub(super) enum Operation {
    None,
    /// `${#NAME}`.
    Length,
    /// `-`; the flag of this and the following is true with `:`, for which an empty value is as none.
    Default(Word, bool),
    /// `=`.
    Assign(Word, bool),
    /// `?`.
    Require(Word, bool),
    /// `+`.
    Alternative(Word, bool),
    /// `#` and, with the flag, `##`.
    StripPrefix(Word, bool),
    /// `%` and, with the flag, `%%`.
    StripSuffix(Word, bool),
    /// `:offset:length`.
    Substring(Word, Option<Word>),
    /// `/pattern/text`.
    Replace(ReplacePlace, Word, Word),
    /// `^`, `^^`, `,` and `,,`: the flags are upper case, and all letters.
    Case(bool, bool),
    /// `${!NAME[@]}`: the subscripts.
    Keys,
}

/// Where `${NAME/pattern/text}` replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplacePlace {
    First,
    All,
    Start,
    End,
}

impl Word {
    /// A word of one literal text.
    pub(super) fn literal_of(text: &str) -> Self {
        Self(vec![WordPart::Quoted(text.to_owned())])
    }

    /// The text of the word; `None` if a part of it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        let text = |part: &WordPart| match part {
            WordPart::Text(text) | WordPart::Quoted(text) => Some(text.clone()),
            WordPart::Expanded(..) => None,
        };
        self.0.iter().map(text).collect()
    }

    /// The text of a word without quotes and expansions.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [WordPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// Whether the text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
