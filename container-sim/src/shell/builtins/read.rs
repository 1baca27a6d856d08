//! `read`, and `mapfile` of bash.

use crate::limits::{ARGUMENTS_BYTES, LONGEST_SLEEP};
use crate::shell::descriptor::{Descriptor, ReadResult};
use crate::shell::machine::{Flow, Frame, Kernel, Process};
use crate::shell::variables::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The arguments of `read`.
struct Arguments {
    raw: bool,
    delimiter: u8,
    /// The most characters, and whether the delimiter does not end them.
    count: Option<usize>,
    array: bool,
    timeout: Option<Duration>,
    prompt: Option<String>,
    descriptor: u32,
    names: Vec<String>,
}

fn arguments(argv: &[String]) -> Result<Arguments, String> {
    let mut found = Arguments {
        raw: false,
        delimiter: b'\n',
        count: None,
        array: false,
        timeout: None,
        prompt: None,
        descriptor: 0,
        names: Vec::new(),
    };
    let mut rest = argv[1..].iter();
    while let Some(word) = rest.next() {
        let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty() && found.names.is_empty())
        else {
            found.names.push(word.clone());
            continue;
        };
        for (at, letter) in flags.char_indices() {
            match letter {
                'r' => found.raw = true,
                's' => {}
                'a' => found.array = true,
                'd' | 'n' | 'N' | 't' | 'p' | 'u' => {
                    let behind = &flags[at + 1..];
                    let value = match behind {
                        "" => rest
                            .next()
                            .cloned()
                            .ok_or_else(|| format!("-{letter}: option requires an argument"))?,
                        behind => behind.to_owned(),
                    };
                    let bad = || format!("{value}: invalid number");
                    match letter {
                        'd' => found.delimiter = value.bytes().next().unwrap_or(0),
                        'n' | 'N' => found.count = Some(value.parse().map_err(|_| bad())?),
                        'p' => found.prompt = Some(value.clone()),
                        'u' => found.descriptor = value.parse().map_err(|_| bad())?,
                        _ => {
                            let seconds: f64 = value.parse().map_err(|_| bad())?;
                            found.timeout = Some(Duration::try_from_secs_f64(seconds).map_err(|_| bad())?);
                        }
                    }
                    break;
                }
                letter => return Err(format!("illegal option -{letter}")),
            }
        }
    }
    Ok(found)
}

pub(super) fn read(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    match arguments(argv) {
        Ok(found) => {
            if let Some(prompt) = &found.prompt
                && process.descriptors.get(&0).is_some_and(|input| input.is_terminal(&process.state.env))
            {
                process.print(kernel, 2, prompt.as_bytes());
            }
            let until = found.timeout.map(|time| kernel.elapsed.saturating_add(time.min(LONGEST_SLEEP)));
            process.frames.push(Frame::ReadVariables(argv.to_vec(), Vec::new(), until));
            0
        }
        Err(why) => process.refuse(kernel, argv, &why, 2),
    }
}

impl Process {
    /// Goes on with `read`.
    pub(in crate::shell) fn read_variables(
        &mut self,
        kernel: &mut Kernel,
        argv: Vec<String>,
        mut read: Vec<u8>,
        until: Option<Duration>,
    ) -> Flow {
        if argv[0] != "read" {
            return self.read_lines(kernel, argv, read);
        }
        let Ok(wanted) = arguments(&argv) else { return Flow::On };
        let mut is_whole = false;
        let result = self.read_number(kernel, wanted.descriptor, &mut |bytes| {
            for (at, byte) in bytes.iter().enumerate() {
                if *byte == wanted.delimiter
                    && (wanted.raw || wanted.delimiter != b'\n' || !ends_escaped(&read))
                {
                    is_whole = true;
                    return at + 1;
                }
                read.push(*byte);
                if wanted.count.is_some_and(|count| read.len() >= count) || read.len() > ARGUMENTS_BYTES {
                    is_whole = true;
                    return at + 1;
                }
            }
            bytes.len()
        });
        let is_late = until.is_some_and(|until| kernel.elapsed >= until);
        if result == ReadResult::Wait && !is_late {
            if let Some(until) = until {
                kernel.wake_at(until);
            }
            self.frames.push(Frame::ReadVariables(argv, read, until));
            return Flow::Wait;
        }
        if result == ReadResult::Some && !is_whole {
            self.frames.push(Frame::ReadVariables(argv, read, until));
            return Flow::On;
        }
        self.state.code = u8::from(!is_whole);
        self.assign_read(kernel, &wanted, &String::from_utf8_lossy(&read));
        Flow::On
    }

    fn read_number(
        &mut self,
        kernel: &mut Kernel,
        number: u32,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> ReadResult {
        if number == 0 {
            return self.read_from(kernel, take);
        }
        match self.descriptors.get(&number) {
            None | Some(Descriptor::Input) => ReadResult::Bad,
            Some(descriptor) => descriptor.read(&self.state.env, take),
        }
    }

    fn assign_read(&mut self, kernel: &mut Kernel, wanted: &Arguments, text: &str) {
        let ifs = self.state.env.variables.text("IFS").unwrap_or(" \t\n").to_owned();
        let chars = unescaped(text, wanted.raw);
        if wanted.array {
            let fields = split(&chars, &ifs, usize::MAX);
            let all: BTreeMap<i64, String> = (0..).zip(fields).collect();
            let bounds = (&kernel.bounds, &mut self.room);
            let name = wanted.names.first().map_or("REPLY", String::as_str);
            // A read-only array stays as it is.
            let _ =
                self.state.env.variables.change(name, bounds, |variable| variable.value = Value::Array(all));
            return;
        }
        let Some(last) = wanted.names.len().checked_sub(1) else {
            let whole: String = chars.iter().map(|(c, _)| *c).collect();
            self.set(kernel, "REPLY", &whole);
            return;
        };
        let mut fields = split(&chars, &ifs, last).into_iter();
        for name in &wanted.names {
            let value = fields.next().unwrap_or_default();
            if !self.set(kernel, name, &value) {
                self.state.code = 2;
                return;
            }
        }
    }

    fn read_lines(&mut self, kernel: &mut Kernel, argv: Vec<String>, mut read: Vec<u8>) -> Flow {
        let result = self.read_from(kernel, &mut |bytes| {
            read.extend_from_slice(bytes);
            bytes.len()
        });
        let fits = read.len() <= ARGUMENTS_BYTES;
        if fits && matches!(result, ReadResult::Some | ReadResult::Wait) {
            self.frames.push(Frame::ReadVariables(argv, read, None));
            return if result == ReadResult::Some { Flow::On } else { Flow::Wait };
        }
        let strips = argv[1..].iter().any(|word| word == "-t");
        let name =
            argv[1..].iter().find(|word| !word.starts_with('-')).map_or("MAPFILE", String::as_str).to_owned();
        let text = String::from_utf8_lossy(&read);
        let lines = text.split_inclusive('\n').map(|line| match strips {
            true => line.trim_end_matches('\n').to_owned(),
            false => line.to_owned(),
        });
        let all: BTreeMap<i64, String> = (0..).zip(lines).collect();
        let bounds = (&kernel.bounds, &mut self.room);
        // A read-only array stays as it is.
        let _ = self.state.env.variables.change(&name, bounds, |variable| variable.value = Value::Array(all));
        self.state.code = 0;
        Flow::On
    }
}

/// `mapfile` and `readarray`.
pub(super) fn lines(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if argv[1..].iter().any(|word| word.starts_with('-') && word != "-t") {
        return process.refuse(kernel, argv, "the simulated shell knows only -t", 2);
    }
    process.frames.push(Frame::ReadVariables(argv.to_vec(), Vec::new(), None));
    0
}

/// Whether the bytes end with a backslash that quotes what follows.
fn ends_escaped(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The characters, and whether a backslash quotes each.
fn unescaped(text: &str, raw: bool) -> Vec<(char, bool)> {
    let mut found = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if !raw => match chars.next() {
                // A continued line.
                Some('\n') | None => {}
                Some(c) => found.push((c, true)),
            },
            c => found.push((c, false)),
        }
    }
    found
}

/// Fields: `last` of them end at a separator, and one more has the rest.
fn split(chars: &[(char, bool)], ifs: &str, last: usize) -> Vec<String> {
    let separates = |at: usize| chars.get(at).is_some_and(|(c, quoted)| !quoted && ifs.contains(*c));
    let is_blank = |at: usize| separates(at) && matches!(chars[at].0, ' ' | '\t' | '\n');
    let (mut fields, mut at) = (Vec::new(), 0);
    while is_blank(at) {
        at += 1;
    }
    while at < chars.len() {
        if fields.len() == last {
            let mut end = chars.len();
            while end > at && is_blank(end - 1) {
                end -= 1;
            }
            // One separator at the end belongs to the last field's end.
            let others = (at..end).filter(|at| separates(*at)).count();
            if others == 1 && separates(end - 1) {
                end -= 1;
            }
            fields.push(chars[at..end].iter().map(|(c, _)| *c).collect());
            return fields;
        }
        let start = at;
        while at < chars.len() && !separates(at) {
            at += 1;
        }
        fields.push(chars[start..at].iter().map(|(c, _)| *c).collect());
        while is_blank(at) {
            at += 1;
        }
        if separates(at) && !is_blank(at) {
            at += 1;
            while is_blank(at) {
                at += 1;
            }
        }
    }
    fields
}
