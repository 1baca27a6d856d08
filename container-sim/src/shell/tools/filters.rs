//! Programs that take their input piece by piece: `cat`, `head` and `tee`, and `yes`.

use super::{Filter, Outcome, Runner, Tool, ToolCall, always, any, plain, without_files};
use crate::shell::env::Env;
use crate::shell::memory::Buffer;

pub(super) const TOOLS: &[Tool] = &[
    Tool { name: "cat", reads: without_files, run: Runner::Stream(cat), check: any },
    Tool { name: "head", reads: head_reads, run: Runner::Stream(head), check: any },
    Tool { name: "tee", reads: always, run: Runner::Stream(tee), check: any },
    plain("yes", |call| {
        // A pipe's reader ends it; here it ends by itself, far beyond what is read of it.
        let text = if call.argv.len() > 1 { call.argv[1..].join(" ") } else { "y".to_owned() };
        let mut out = Buffer::new(&call.env.bounds());
        for _ in 0..YES_LINES {
            if !(out.push(text.as_bytes()) && out.push(b"\n")) {
                break;
            }
        }
        Outcome::reserved(out)
    }),
];

/// Lines that `yes` prints.
const YES_LINES: usize = 10_000;

/// `cat`: before and behind its input are files.
#[derive(Debug)]
struct Cat {
    files: Vec<String>,
    at: usize,
    numbers: bool,
    line: usize,
    is_start: bool,
    code: u8,
}

fn cat(call: &ToolCall<'_>) -> Result<Box<dyn Filter>, Outcome> {
    let parsed = super::parse(call.arguments(), "nubAevtE", &[("number", 'n')])
        .map_err(|why| Outcome::fail(1, format!("cat: {why}\n")))?;
    let files = if parsed.operands.is_empty() { vec!["-".to_owned()] } else { parsed.operands.clone() };
    if parsed.flags.iter().any(|(flag, _)| !matches!(flag, 'n' | 'u')) {
        return Err(Outcome::fail(1, "cat: the simulated program knows only -n and -u\n".to_owned()));
    }
    Ok(Box::new(Cat { files, at: 0, numbers: parsed.has('n'), line: 0, is_start: true, code: 0 }))
}

impl Cat {
    /// Prints files up to the next `-`, which is passed over at the end of the input.
    fn files(&mut self, env: &Env, out: &mut Buffer, err: &mut String) {
        while let Some(file) =
            self.files.get(self.at).filter(|file| *file != "-" && *file != "/dev/stdin").cloned()
        {
            self.at += 1;
            match env.read(&env.path(&file)) {
                Ok(bytes) => {
                    if !self.print(&bytes, out) {
                        return;
                    }
                }
                Err(why) => {
                    err.push_str(&format!("cat: can't open '{file}': {why}\n"));
                    self.code = 1;
                    if !env.runs() {
                        return;
                    }
                }
            }
        }
    }

    fn print(&mut self, bytes: &[u8], out: &mut Buffer) -> bool {
        if !self.numbers {
            return out.push(bytes);
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_start {
                self.line += 1;
                if !out.push(format!("{:>6}\t", self.line).as_bytes()) {
                    return false;
                }
            }
            self.is_start = line.ends_with(b"\n");
            if !out.push(line) {
                return false;
            }
        }
        true
    }
}

impl Filter for Cat {
    fn feed(&mut self, env: &Env, bytes: &[u8]) -> (Outcome, bool) {
        let (mut out, mut err) = (Buffer::new(&env.bounds()), String::new());
        self.files(env, &mut out, &mut err);
        self.print(bytes, &mut out);
        (Outcome { err, ..Outcome::reserved(out) }, false)
    }

    fn end(&mut self, env: &Env) -> Outcome {
        let (mut out, mut err) = (Buffer::new(&env.bounds()), String::new());
        while self.at < self.files.len() && env.runs() {
            self.files(env, &mut out, &mut err);
            self.at += 1;
        }
        Outcome { err, code: self.code, ..Outcome::reserved(out) }
    }
}

/// `head`.
#[derive(Debug)]
struct Head {
    files: Vec<String>,
    /// What is left of the input, in lines or bytes.
    left: usize,
    bytes: bool,
    /// All but the last ones; the input so far.
    held: Option<Buffer>,
    most: usize,
    quiet: bool,
}

struct HeadArguments {
    count: usize,
    bytes: bool,
    from_end: bool,
    quiet: bool,
    files: Vec<String>,
}

fn head_arguments(arguments: &[String]) -> Result<HeadArguments, String> {
    // `-5` is an old form of `-n 5`.
    let words: Vec<String> = arguments
        .iter()
        .map(|word| match word.strip_prefix('-') {
            Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => format!("-n{number}"),
            _ => word.clone(),
        })
        .collect();
    let parsed = super::parse(&words, "n:c:qv", &[("lines", 'n'), ("bytes", 'c'), ("quiet", 'q')])?;
    let (mut count, mut bytes, mut from_end) = (10, false, false);
    for (flag, value) in parsed.flags.iter().filter(|(flag, _)| matches!(flag, 'n' | 'c')) {
        bytes = *flag == 'c';
        from_end = value.starts_with('-');
        let digits = value.trim_start_matches(['-', '+']);
        let (digits, unit) = match digits.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1024),
            None => (digits, 1),
        };
        let number: usize = digits.parse().map_err(|_| format!("invalid number '{value}'"))?;
        count = number.saturating_mul(unit);
    }
    Ok(HeadArguments { count, bytes, from_end, quiet: parsed.has('q'), files: parsed.operands })
}

fn head_reads(arguments: &[String]) -> bool {
    head_arguments(arguments).is_ok_and(|found| found.files.is_empty() || found.files == ["-"])
}

fn head(call: &ToolCall<'_>) -> Result<Box<dyn Filter>, Outcome> {
    let found = head_arguments(call.arguments()).map_err(|why| Outcome::fail(1, format!("head: {why}\n")))?;
    let held = found.from_end.then(|| Buffer::new(&call.env.bounds()));
    let HeadArguments { count, bytes, quiet, files, .. } = found;
    Ok(Box::new(Head { files, left: count, bytes, held, most: count, quiet }))
}

impl Head {
    /// The length of what is printed of these bytes.
    fn length(left: &mut usize, bytes: bool, text: &[u8]) -> usize {
        if bytes {
            let length = text.len().min(*left);
            *left -= length;
            return length;
        }
        let mut length = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if *left == 0 {
                break;
            }
            length += line.len();
            *left -= usize::from(line.ends_with(b"\n"));
        }
        length
    }

    /// All but the last ones.
    fn without_last<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        if self.bytes {
            return &text[..text.len().saturating_sub(self.most)];
        }
        let count = text.split_inclusive(|byte| *byte == b'\n').count();
        let mut left = count.saturating_sub(self.most);
        &text[..Self::length(&mut left, false, text)]
    }
}

impl Filter for Head {
    fn feed(&mut self, env: &Env, bytes: &[u8]) -> (Outcome, bool) {
        if let Some(held) = &mut self.held {
            held.push(bytes);
            return (Outcome::default(), false);
        }
        let length = Self::length(&mut self.left, self.bytes, bytes);
        let mut out = Buffer::new(&env.bounds());
        out.push(&bytes[..length]);
        (Outcome::reserved(out), self.left == 0)
    }

    fn end(&mut self, env: &Env) -> Outcome {
        let (mut out, mut err, mut code) = (Buffer::new(&env.bounds()), String::new(), 0);
        if let Some(held) = &self.held {
            out.push(self.without_last(held.as_ref()));
        }
        let several = self.files.len() > 1 && !self.quiet;
        for (at, file) in self.files.iter().filter(|file| *file != "-").enumerate() {
            let path = env.path(file);
            let endless = matches!(path.as_str(), "/dev/zero" | "/dev/random" | "/dev/urandom");
            if endless {
                let mut seed = env.work.total();
                for _ in 0..if self.bytes { self.most } else { 0 } {
                    let byte = if path == "/dev/zero" {
                        0
                    } else {
                        crate::shell::descriptor::next_random(&mut seed)
                    };
                    if !out.push(&[byte]) {
                        break;
                    }
                }
                continue;
            }
            match env.read(&path) {
                Ok(bytes) => {
                    if several {
                        out.push(format!("{}==> {file} <==\n", if at > 0 { "\n" } else { "" }).as_bytes());
                    }
                    let shown = match self.held {
                        Some(_) => self.without_last(&bytes),
                        None => &bytes[..Self::length(&mut self.most.clone(), self.bytes, &bytes)],
                    };
                    if !out.push(shown) {
                        break;
                    }
                }
                Err(why) => {
                    err.push_str(&format!("head: {file}: {why}\n"));
                    code = 1;
                }
            }
        }
        Outcome { err, code, ..Outcome::reserved(out) }
    }
}

/// `tee`.
#[derive(Debug)]
struct Tee {
    files: Vec<String>,
    code: u8,
}

fn tee(call: &ToolCall<'_>) -> Result<Box<dyn Filter>, Outcome> {
    let parsed = super::parse(call.arguments(), "ai", &[("append", 'a')])
        .map_err(|why| Outcome::fail(1, format!("tee: {why}\n")))?;
    let (mut files, mut err) = (Vec::new(), String::new());
    for file in parsed.operands.iter().take_while(|_| call.env.runs()) {
        let path = call.env.path(file);
        let opened = match parsed.has('a') {
            true => call.env.append(&path, b""),
            false => call.env.write(&path, b""),
        };
        match opened {
            Ok(()) => files.push(path),
            Err(why) => err.push_str(&format!("tee: {file}: {why}\n")),
        }
    }
    if !err.is_empty() && files.is_empty() {
        // The input is still copied by the real program; here the error is what matters.
        return Err(Outcome::fail(1, err));
    }
    Ok(Box::new(Tee { files, code: u8::from(!err.is_empty()) }))
}

impl Filter for Tee {
    fn feed(&mut self, env: &Env, bytes: &[u8]) -> (Outcome, bool) {
        let (mut out, mut err) = (Buffer::new(&env.bounds()), String::new());
        out.push(bytes);
        for file in &self.files {
            if let Err(why) = env.append(file, bytes) {
                err.push_str(&format!("tee: {file}: {why}\n"));
                self.code = 1;
            }
        }
        (Outcome { err, ..Outcome::reserved(out) }, false)
    }

    fn end(&mut self, _: &Env) -> Outcome {
        Outcome::code(self.code)
    }
}
