//! `find`: the entries at and below paths, with tests, actions and commands.

use super::{Effect, ExitRule, Outcome, Tool, ToolCall, plain};
use crate::limits::NESTED_EXPRESSIONS;
use crate::shell::disk::{Content, DiskEntry};
use crate::shell::memory::Buffer;
use crate::shell::pattern::Pattern;

pub(super) const TOOLS: &[Tool] = &[plain("find", find)];

/// A part of the expression.
#[derive(Debug)]
enum Test {
    Name(Pattern, bool),
    Path(Pattern),
    Kind(Vec<char>),
    Empty,
    /// `-size` in bytes of a unit: more, less or equal.
    Size(char, u64, u64),
    Mode(char, u32),
    /// Days or minutes since the last change.
    Age(char, i64, i64),
    Newer(i64),
    Print,
    Print0,
    Delete,
    Prune,
    /// `-exec` with its words; the flag says that all paths go to one command.
    Exec(usize, bool),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    True(bool),
}

struct Parser<'a> {
    call: &'a ToolCall<'a>,
    words: &'a [String],
    at: usize,
    commands: Vec<Vec<String>>,
    acts: bool,
    depth_first: bool,
    least: usize,
    most: usize,
}

impl Parser<'_> {
    fn argument(&mut self, name: &str) -> Result<String, String> {
        let word = self.words.get(self.at).cloned().ok_or_else(|| format!("{name}: missing argument"))?;
        self.at += 1;
        Ok(word)
    }

    fn any(&mut self, depth: usize) -> Result<Test, String> {
        let mut all = vec![self.all(depth)?];
        while self.words.get(self.at).is_some_and(|word| word == "-o" || word == "-or") {
            self.at += 1;
            all.push(self.all(depth)?);
        }
        Ok(Test::Any(all))
    }

    fn all(&mut self, depth: usize) -> Result<Test, String> {
        let mut all = Vec::new();
        loop {
            match self.words.get(self.at).map(String::as_str) {
                None | Some(")" | "-o" | "-or") => return Ok(Test::All(all)),
                Some("-a" | "-and") => self.at += 1,
                Some(_) => all.push(self.test(depth)?),
            }
        }
    }

    fn test(&mut self, depth: usize) -> Result<Test, String> {
        if depth > NESTED_EXPRESSIONS {
            return Err("too many parentheses".to_owned());
        }
        let name = self.words[self.at].clone();
        self.at += 1;
        Ok(match name.as_str() {
            "!" | "-not" if self.at < self.words.len() => Test::Not(Box::new(self.test(depth + 1)?)),
            "(" => {
                let inside = self.any(depth + 1)?;
                if self.argument("(")? != ")" {
                    return Err("unmatched (".to_owned());
                }
                inside
            }
            "-name" => Test::Name(Pattern::parse(&self.argument(&name)?, false), false),
            "-iname" => Test::Name(Pattern::parse(&self.argument(&name)?.to_lowercase(), false), true),
            "-path" | "-wholename" => Test::Path(Pattern::parse(&self.argument(&name)?, false)),
            "-type" => Test::Kind(self.argument(&name)?.chars().filter(|c| *c != ',').collect()),
            "-empty" => Test::Empty,
            "-true" => Test::True(true),
            "-false" => Test::True(false),
            "-print" => self.action(Test::Print),
            "-print0" => self.action(Test::Print0),
            "-prune" => Test::Prune,
            "-delete" => {
                self.depth_first = true;
                self.action(Test::Delete)
            }
            "-depth" => {
                self.depth_first = true;
                Test::True(true)
            }
            "-xdev" | "-mount" | "-follow" => Test::True(true),
            "-maxdepth" | "-mindepth" => {
                let text = self.argument(&name)?;
                let number = text.parse().map_err(|_| format!("invalid number '{text}'"))?;
                if name == "-maxdepth" {
                    self.most = number;
                } else {
                    self.least = number;
                }
                Test::True(true)
            }
            "-exec" | "-ok" => self.command()?,
            "-size" | "-perm" | "-mtime" | "-mmin" => self.number(&name)?,
            "-newer" => {
                let path = self.argument(&name)?;
                let env = self.call.env;
                let entry = env.entry(&env.resolved(&env.path(&path)));
                Test::Newer(entry.ok_or_else(|| format!("{path}: No such file or directory"))?.modified)
            }
            name => return Err(format!("unrecognized: {name}")),
        })
    }

    /// A test with a number.
    fn number(&mut self, name: &str) -> Result<Test, String> {
        match name {
            "-size" => {
                let (sign, text) = signed(&self.argument(name)?);
                let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).to_owned();
                let unit = match &text[digits.len()..] {
                    "c" => 1,
                    "k" => 1024,
                    "M" => 1024 * 1024,
                    "" | "b" => 512,
                    _ => return Err(format!("invalid number '{text}'")),
                };
                Ok(Test::Size(sign, digits.parse().map_err(|_| format!("invalid number '{text}'"))?, unit))
            }
            "-perm" => {
                let text = self.argument(name)?;
                let (sign, digits) = match text.chars().next() {
                    Some(sign @ ('-' | '/' | '+')) => (sign, &text[1..]),
                    _ => ('=', text.as_str()),
                };
                Ok(Test::Mode(
                    sign,
                    u32::from_str_radix(digits, 8).map_err(|_| format!("invalid mode '{text}'"))?,
                ))
            }
            _ => {
                let (sign, text) = signed(&self.argument(name)?);
                let unit = if name == "-mtime" { 86_400 } else { 60 };
                Ok(Test::Age(sign, text.parse().map_err(|_| format!("invalid number '{text}'"))?, unit))
            }
        }
    }

    fn action(&mut self, test: Test) -> Test {
        self.acts = true;
        test
    }

    fn command(&mut self) -> Result<Test, String> {
        let mut words = Vec::new();
        loop {
            let word = self.argument("-exec")?;
            if word == ";" || (word == "+" && words.last().is_some_and(|last| last == "{}")) {
                self.commands.push(words);
                self.acts = true;
                return Ok(Test::Exec(self.commands.len() - 1, word == "+"));
            }
            words.push(word);
        }
    }
}

fn signed(text: &str) -> (char, String) {
    match text.chars().next() {
        Some(sign @ ('+' | '-')) => (sign, text[1..].to_owned()),
        _ => ('=', text.to_owned()),
    }
}

/// The state of a search.
struct Search<'a> {
    call: &'a ToolCall<'a>,
    commands: &'a [Vec<String>],
    out: Buffer,
    then: Vec<Effect>,
    /// Paths for commands that get all of them.
    collected: Vec<Vec<String>>,
    err: String,
    code: u8,
    pruned: bool,
}

impl Search<'_> {
    /// Looks at a path and all entries below it.
    fn below(&mut self, parser: &Parser<'_>, test: &Test, root: &str) {
        let call = self.call;
        let base = call.env.path(root);
        let mut all = call.env.walk(&base);
        if all.is_empty() {
            self.err.push_str(&format!("find: {root}: No such file or directory\n"));
            self.code = 1;
        }
        if parser.depth_first {
            // Each folder behind what is in it.
            all.reverse();
        }
        let mut pruned: Option<String> = None;
        for (path, entry) in all.iter().take_while(|_| call.env.runs()) {
            if pruned.as_ref().is_some_and(|folder| path.starts_with(folder.as_str())) {
                continue;
            }
            let below = path[base.len().min(path.len())..].trim_start_matches('/');
            let depth = if below.is_empty() { 0 } else { below.split('/').count() };
            if depth < parser.least || depth > parser.most {
                continue;
            }
            let shown = match below {
                "" => root.to_owned(),
                below if root.ends_with('/') => format!("{root}{below}"),
                below => format!("{root}/{below}"),
            };
            self.pruned = false;
            self.holds(test, &shown, path, entry, 0);
            if self.pruned && !parser.depth_first {
                pruned = Some(format!("{}/", path.trim_end_matches('/')));
            }
        }
    }

    /// Output before the commands that follow it.
    fn flush(&mut self) {
        let out = std::mem::replace(&mut self.out, Buffer::new(&self.call.env.bounds()));
        if !out.is_empty() {
            self.then.push(Effect::Output(out));
        }
    }

    fn holds(&mut self, test: &Test, shown: &str, path: &str, entry: &DiskEntry, depth: usize) -> bool {
        // The parser has bounded it.
        debug_assert!(depth <= 4 * NESTED_EXPRESSIONS, "the expression is nested");
        let env = self.call.env;
        let compare = |sign: char, own: i64, given: i64| match sign {
            '+' => own > given,
            '-' => own < given,
            _ => own == given,
        };
        match test {
            Test::Name(pattern, folded) => {
                let name = shown.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let name = if *folded { name.to_lowercase() } else { name.to_owned() };
                pattern.matches(&name.chars().collect::<Vec<_>>(), &env.work)
            }
            Test::Path(pattern) => pattern.matches(&shown.chars().collect::<Vec<_>>(), &env.work),
            Test::Kind(kinds) => kinds.contains(&match entry.content {
                Content::Folder => 'd',
                Content::File(_) => 'f',
                Content::Link(_) => 'l',
            }),
            Test::Empty => match &entry.content {
                Content::Folder => env.children(path).is_empty(),
                Content::File(bytes) => bytes.is_empty(),
                Content::Link(_) => false,
            },
            Test::Size(sign, number, unit) => {
                let size = match &entry.content {
                    Content::File(bytes) => bytes.len() as u64,
                    Content::Folder | Content::Link(_) => 0,
                };
                let own = i64::try_from(size.div_ceil(*unit)).unwrap_or(i64::MAX);
                compare(*sign, own, i64::try_from(*number).unwrap_or(i64::MAX))
            }
            Test::Mode('-', mode) => entry.mode & mode == *mode,
            Test::Mode('/' | '+', mode) => entry.mode & mode != 0,
            Test::Mode(_, mode) => entry.mode & 0o7777 == *mode,
            Test::Age(sign, number, unit) => compare(*sign, (env.now - entry.modified) / unit, *number),
            Test::Newer(than) => entry.modified > *than,
            Test::Print => self.out.push(format!("{shown}\n").as_bytes()),
            Test::Print0 => self.out.push(format!("{shown}\0").as_bytes()),
            Test::Prune => {
                self.pruned = true;
                true
            }
            Test::Delete => match env.remove(path) {
                _ if shown == "." => true,
                Ok(()) => true,
                Err(why) => {
                    self.err.push_str(&format!("find: {shown}: {why}\n"));
                    self.code = 1;
                    false
                }
            },
            Test::Exec(command, true) => {
                self.collected[*command].push(shown.to_owned());
                env.work.spend(shown.len() + 64)
            }
            Test::Exec(command, false) => {
                self.flush();
                let argv = self.commands[*command].iter().map(|word| word.replace("{}", shown)).collect();
                self.then.push(run(argv));
                env.work.spend(10_000)
            }
            Test::Not(inside) => !self.holds(inside, shown, path, entry, depth + 1),
            Test::All(all) => all.iter().all(|test| self.holds(test, shown, path, entry, depth + 1)),
            Test::Any(all) => all.iter().any(|test| self.holds(test, shown, path, entry, depth + 1)),
            Test::True(holds) => *holds,
        }
    }
}

fn run(argv: Vec<String>) -> Effect {
    Effect::Run { argv, rule: ExitRule::Ignore, variables: Vec::new(), input: None, limit: None }
}

fn find(call: &ToolCall<'_>) -> Outcome {
    let arguments = call.arguments();
    let flags = arguments.iter().take_while(|word| matches!(word.as_str(), "-L" | "-H" | "-P")).count();
    let arguments = &arguments[flags..];
    let is_test = |word: &String| word.starts_with('-') || word == "(" || word == "!";
    let at = arguments.iter().position(is_test).unwrap_or(arguments.len());
    let (roots, words) = arguments.split_at(at);
    let mut parser = Parser {
        call,
        words,
        at: 0,
        commands: Vec::new(),
        acts: false,
        depth_first: false,
        least: 0,
        most: usize::MAX,
    };
    let test = match parser.any(0) {
        Ok(test) if parser.at == words.len() => test,
        Ok(_) => return Outcome::fail(1, "find: unmatched )\n".to_owned()),
        Err(why) => return Outcome::fail(1, format!("find: {why}\n")),
    };
    let test = if parser.acts { test } else { Test::All(vec![test, Test::Print]) };
    let here = [".".to_owned()];
    let roots = if roots.is_empty() { &here[..] } else { roots };
    let mut search = Search {
        call,
        commands: &parser.commands,
        out: Buffer::new(&call.env.bounds()),
        then: Vec::new(),
        collected: parser.commands.iter().map(|_| Vec::new()).collect(),
        err: String::new(),
        code: 0,
        pruned: false,
    };
    for root in roots.iter().take_while(|_| call.env.runs()) {
        search.below(&parser, &test, root);
    }
    let collected = std::mem::take(&mut search.collected);
    for (command, paths) in parser.commands.iter().zip(collected) {
        if !paths.is_empty() {
            search.flush();
            search.then.push(run(command[..command.len() - 1].iter().cloned().chain(paths).collect()));
        }
    }
    let Search { out, then, err, code, .. } = search;
    if then.is_empty() {
        return Outcome { err, code, ..Outcome::reserved(out) };
    }
    let mut then = then;
    if !out.is_empty() {
        then.push(Effect::Output(out));
    }
    Outcome { err, code, then, ..Outcome::default() }
}
