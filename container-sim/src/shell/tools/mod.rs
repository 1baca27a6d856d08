//! Programs of simulated containers: a table of them, one or a few related ones a file. A program is a function from its words, its
//! input and the files of its container to its output; those that need time or other programs return [`Effect`]s.

mod agnhost;
mod awk;
mod basic;
mod columns;
mod compare;
mod compress;
pub(super) mod conditions;
mod curl;
mod difference;
mod digest;
mod encoding;
mod fetch;
mod files;
mod filters;
mod find;
mod hexdump;
mod netcat;
mod numbers;
mod od;
mod path;
pub(super) mod printf;
mod resolve;
mod runners;
mod search;
mod sed;
mod sort;
mod stat;
mod sums;
mod system;
mod tar;
mod text;
mod users;
mod wget;

use super::env::Env;
use super::memory::Buffer;
use super::network::{NetworkCall, NetworkReply};
use super::{ImagePrograms, program_name};
pub(super) use agnhost::value as flag_value;
pub(super) use basic::echo;
pub(super) use curl::base64;
use std::fmt::Debug;
use std::time::Duration;

/// A program.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Whether it reads its standard input when called with these arguments.
    pub(super) reads: fn(&[String]) -> bool,
    pub(super) run: Runner,
    /// Checks that the simulated program supports these arguments as the real one does. An argument `$` stands for a text that is known
    /// only at run time. The error is the reason that the container's log shows.
    pub(super) check: fn(&[String]) -> Result<(), String>,
}

/// How a program runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Runner {
    /// With all of its input at once.
    Whole(fn(&ToolCall<'_>) -> Outcome),
    /// Piece by piece.
    Stream(fn(&ToolCall<'_>) -> Result<Box<dyn Filter>, Outcome>),
}

/// A call of a program.
pub(super) struct ToolCall<'a> {
    pub(super) env: &'a Env,
    /// Its name and arguments.
    pub(super) argv: &'a [String],
    pub(super) input: &'a [u8],
}

impl ToolCall<'_> {
    /// The arguments.
    pub(super) fn arguments(&self) -> &[String] {
        &self.argv[1..]
    }
}

/// A program that takes its input piece by piece.
pub(super) trait Filter: Debug + Send + Sync {
    /// Processes input. The flag says that the program has ended.
    fn feed(&mut self, env: &Env, bytes: &[u8]) -> (Outcome, bool);
    /// Processes the end of the input.
    fn end(&mut self, env: &Env) -> Outcome;
}

/// A program that goes on as time passes.
pub(super) trait Steps: Debug + Send + Sync {
    /// What follows now. The program goes on if [`Effect::Step`] with itself is among it.
    fn step(self: Box<Self>, env: &Env) -> Vec<Effect>;
}

/// A program that waits for the network.
pub(super) trait Networked: Debug + Send + Sync {
    /// What follows the reply.
    fn reply(self: Box<Self>, env: &Env, reply: NetworkReply) -> Vec<Effect>;
}

/// The standard output of a program.
#[derive(Debug)]
pub(super) enum Output {
    /// Not larger than the input, the words and the files of the program together.
    Small(Vec<u8>),
    /// Of any size, with its memory.
    Reserved(Buffer),
}

impl Default for Output {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

/// What a program does after its output.
#[derive(Debug)]
pub(super) enum Effect {
    Print(Vec<u8>),
    /// Output of any size, with its memory.
    Output(Buffer),
    Error(Vec<u8>),
    Sleep(Duration),
    /// Writes a file, as far as the file system lets it.
    Write(String, Vec<u8>),
    /// Sets the exit code.
    Code(u8),
    /// The next step of a program that goes on as time passes.
    Step(Box<dyn Steps>),
    /// Makes a call on the network; the program goes on with its reply.
    Network(Box<NetworkCall>, Box<dyn Networked>),
    /// Waits for one of these signals: its number, and what follows. Without any it waits for ever.
    AwaitSignal(Vec<(u8, Vec<Effect>)>),
    /// Runs another program.
    Run {
        argv: Vec<String>,
        /// What its exit code means for that of this program.
        rule: ExitRule,
        /// Variables that it gets, or does not get.
        variables: Vec<(String, Option<String>)>,
        /// An empty input; without it the program reads that of this one.
        input: Option<()>,
        /// The time after which it gets a signal.
        limit: Option<(Duration, u8)>,
    },
}

/// What the exit code of a program means for the one that has run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitRule {
    Ignore,
    /// It is the exit code.
    Take,
    /// `xargs`: 123 if one failed.
    Xargs,
}

/// The result of a program.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) out: Output,
    pub(super) err: String,
    pub(super) code: u8,
    /// Steps after the output that need time, input or other programs.
    pub(super) then: Vec<Effect>,
}

impl Outcome {
    pub(super) fn text(out: impl Into<Vec<u8>>) -> Self {
        Self { out: Output::Small(out.into()), ..Self::default() }
    }

    pub(super) fn reserved(out: Buffer) -> Self {
        Self { out: Output::Reserved(out), ..Self::default() }
    }

    pub(super) fn code(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    pub(super) fn fail(code: u8, err: String) -> Self {
        Self { err, code, ..Self::default() }
    }
}

/// Whether a program reads its input: never.
fn never(_: &[String]) -> bool {
    false
}

/// Whether a program reads its input: always.
fn always(_: &[String]) -> bool {
    true
}

/// Any arguments are known, or refused by the program itself.
fn any(_: &[String]) -> Result<(), String> {
    Ok(())
}

/// A program without input.
const fn plain(name: &'static str, run: fn(&ToolCall<'_>) -> Outcome) -> Tool {
    Tool { name, reads: never, run: Runner::Whole(run), check: any }
}

/// A program that reads all of its input before it runs.
const fn whole(name: &'static str, reads: fn(&[String]) -> bool, run: fn(&ToolCall<'_>) -> Outcome) -> Tool {
    Tool { name, reads, run: Runner::Whole(run), check: any }
}

/// All programs.
const TABLES: [&[Tool]; 25] = [
    encoding::TOOLS,
    basic::TOOLS,
    compare::TOOLS,
    compress::TOOLS,
    hexdump::TOOLS,
    od::TOOLS,
    stat::TOOLS,
    sums::TOOLS,
    users::TOOLS,
    files::TOOLS,
    text::TOOLS,
    filters::TOOLS,
    columns::TOOLS,
    numbers::TOOLS,
    path::TOOLS,
    find::TOOLS,
    search::TOOLS,
    sed::TOOLS,
    awk::TOOLS,
    runners::TOOLS,
    curl::TOOLS,
    netcat::TOOLS,
    resolve::TOOLS,
    wget::TOOLS,
    system::TOOLS,
];

/// The program of this name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TABLES.iter().flat_map(|table| table.iter()).find(|tool| tool.name == name)
}

/// The program that a word starts in a container with these programs of its image.
pub(super) fn find_in(programs: &ImagePrograms, word: &str) -> Option<&'static Tool> {
    match programs.get(word) {
        Some(name) => {
            let mut of_images = agnhost::TOOLS.iter().chain(std::iter::once(&system::NNP));
            of_images.find(|tool| tool.name == name).or_else(|| find(name))
        }
        None => find(program_name(word)),
    }
}

/// The command that a program runs with these arguments; `None` if it runs none.
pub(super) fn runs(name: &str, arguments: &[String]) -> Option<Vec<String>> {
    runners::command(name, arguments)
}

/// The arguments that are not flags; `--` ends the flags.
fn operands(arguments: &[String]) -> Vec<&str> {
    let ends = arguments.iter().position(|word| word == "--");
    arguments
        .iter()
        .enumerate()
        .filter(|(at, word)| {
            ends.is_some_and(|end| *at > end)
                || (ends != Some(*at) && (!word.starts_with('-') || *word == "-"))
        })
        .map(|(_, word)| word.as_str())
        .collect()
}

/// Whether a flag of one letter is among the arguments.
fn flag(arguments: &[String], letter: char) -> bool {
    let flags = arguments.iter().take_while(|word| *word != "--");
    flags
        .filter(|word| word.len() > 1 && word.starts_with('-') && !word.starts_with("--"))
        .any(|word| word.contains(letter))
}

/// Flags and operands, parsed as `getopt` does.
#[derive(Debug, Default)]
struct Parsed {
    /// Each flag with its value, in order.
    flags: Vec<(char, String)>,
    operands: Vec<String>,
}

impl Parsed {
    fn has(&self, letter: char) -> bool {
        self.flags.iter().any(|(flag, _)| *flag == letter)
    }

    /// The value of the last such flag.
    fn value(&self, letter: char) -> Option<&str> {
        self.flags.iter().rev().find(|(flag, _)| *flag == letter).map(|(_, value)| value.as_str())
    }
}

/// Parses arguments: letters in `known` are flags, those followed by `:` have a value. `long` names long flags with their letters. With
/// `+` at the beginning of `known` the first operand ends the flags.
///
/// # Errors
/// The text of the first unknown flag.
fn parse(arguments: &[String], known: &str, long: &[(&str, char)]) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut rest = arguments.iter();
    let takes = |letter: char| known.find(letter).map(|at| known[at + 1..].starts_with(':'));
    while let Some(word) = rest.next() {
        if word == "--" {
            parsed.operands.extend(rest.cloned());
            break;
        }
        if let Some(name) = word.strip_prefix("--") {
            let (name, value) =
                name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let Some((_, letter)) = long.iter().find(|(own, _)| *own == name) else {
                return Err(format!("unrecognized option '{word}'"));
            };
            let value = match (takes(*letter), value) {
                (Some(true), Some(value)) => value.to_owned(),
                (Some(true), None) => {
                    rest.next().cloned().ok_or_else(|| format!("option '{word}' requires an argument"))?
                }
                (_, value) => value.unwrap_or_default().to_owned(),
            };
            parsed.flags.push((*letter, value));
            continue;
        }
        if word.len() < 2 || !word.starts_with('-') {
            parsed.operands.push(word.clone());
            if known.starts_with('+') {
                parsed.operands.extend(rest.cloned());
                break;
            }
            continue;
        }
        for (at, letter) in word[1..].char_indices() {
            match takes(letter).filter(|_| letter != ':' && letter != '+') {
                None => return Err(format!("invalid option -- '{letter}'")),
                Some(false) => parsed.flags.push((letter, String::new())),
                Some(true) => {
                    let behind = &word[1 + at + letter.len_utf8()..];
                    let value = match behind {
                        "" => rest
                            .next()
                            .cloned()
                            .ok_or_else(|| format!("option requires an argument -- '{letter}'"))?,
                        behind => behind.to_owned(),
                    };
                    parsed.flags.push((letter, value));
                    break;
                }
            }
        }
    }
    Ok(parsed)
}

/// The concatenated bytes of a program's files, or its input if it names none. Errors of files go to `err`.
fn contents(call: &ToolCall<'_>, files: &[String], err: &mut String) -> Option<Buffer> {
    let env = call.env;
    let mut bytes = Buffer::new(&env.bounds());
    if files.is_empty() {
        return bytes.push(call.input).then_some(bytes);
    }
    for file in files {
        let fits = match env.read(&env.path(file)) {
            _ if file == "-" || file == "/dev/stdin" => bytes.push(call.input),
            Ok(content) => bytes.push(&content),
            Err(why) => {
                err.push_str(&format!("{}: {file}: {why}\n", call.argv[0]));
                env.runs()
            }
        };
        if !fits {
            return None;
        }
    }
    // Programs pass over them a few times.
    env.work.spend(4 * bytes.len()).then_some(bytes)
}

/// Whether a program with these flags reads its input: if it names no file, or `-`.
fn reads(arguments: &[String], known: &str) -> bool {
    parse(arguments, known, &[]).is_ok_and(|parsed| {
        parsed.operands.is_empty() || parsed.operands.iter().any(|file| file == "-" || file == "/dev/stdin")
    })
}

/// As [`reads`], for programs whose flags have no values.
fn without_files(arguments: &[String]) -> bool {
    let files = operands(arguments);
    files.is_empty() || files.contains(&"-") || files.contains(&"/dev/stdin")
}

/// The lines of a text, without their newlines.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}
