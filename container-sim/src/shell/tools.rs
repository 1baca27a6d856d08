//! Programs of a simulated container that change files.

use super::Environment;
use super::builtin::{Outcome, Output};
use super::disk::{Content, DiskEntry};
use super::files::FileError;
use super::memory::{Buffer, Reservation};

/// Whether a program of this file reads its input.
pub(super) fn reads(program: &str, arguments: &[String]) -> bool {
    match program {
        "tee" => true,
        "dd" => !arguments.iter().any(|word| word.starts_with("if=")),
        _ => false,
    }
}

/// Runs a program of this file; `None` if it has none of this name.
pub(super) fn run(
    environment: &Environment,
    program: &str,
    arguments: &[String],
    input: &[u8],
) -> Option<Outcome> {
    Some(match program {
        "mkdir" => each(
            program,
            arguments,
            "can't create directory",
            |flags, path| {
                if flags.contains('p') {
                    environment.make_folders(path)
                } else {
                    environment.put(path, DiskEntry::folder(environment.now))
                }
            },
            environment,
        ),
        "rmdir" => each(program, arguments, "", |_, path| environment.remove(path), environment),
        "rm" => each(
            program,
            arguments,
            "can't remove",
            |flags, path| remove(environment, flags, path),
            environment,
        ),
        "touch" => each(program, arguments, "", |_, path| touch(environment, path), environment),
        "chmod" => chmod(environment, arguments),
        "cp" | "mv" => transfer(environment, program, arguments),
        "ln" => link(environment, arguments),
        "readlink" => readlink(environment, arguments),
        "tee" => tee(environment, arguments, input),
        "dd" => copy_blocks(environment, arguments, input),
        "find" => find(environment, arguments),
        "sync" | "chown" | "chgrp" => Outcome::default(),
        _ => return None,
    })
}

fn split(arguments: &[String]) -> (String, Vec<&String>) {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.len() > 1 && word.starts_with('-'));
    (flags.into_iter().cloned().collect(), words)
}

/// Applies an operation to each path, and continues after a failure.
fn each(
    program: &str,
    arguments: &[String],
    failure: &str,
    act: impl Fn(&str, &str) -> Result<(), FileError>,
    environment: &Environment,
) -> Outcome {
    let (flags, words) = split(arguments);
    let mut outcome = Outcome::default();
    if words.is_empty() && !flags.contains('f') {
        return Outcome::fail(1, format!("{program}: missing operand\n"));
    }
    for word in words.into_iter().take_while(|_| environment.runs()) {
        if let Err(why) = act(&flags, &environment.path(word)) {
            let what = if failure.is_empty() { String::new() } else { format!("{failure} ") };
            outcome.err.push_str(&format!("{program}: {what}'{word}': {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}

fn remove(environment: &Environment, flags: &str, path: &str) -> Result<(), FileError> {
    let recursive = flags.contains(['r', 'R']);
    match environment.entry(path).map(|entry| entry.content) {
        None if flags.contains('f') => Ok(()),
        Some(Content::Folder) if !recursive => Err(FileError::Folder),
        Some(Content::Folder) => {
            environment.walk(path).iter().rev().try_for_each(|(path, _)| environment.remove(path))
        }
        Some(Content::File(_) | Content::Link(_)) | None => environment.remove(path),
    }
}

fn touch(environment: &Environment, path: &str) -> Result<(), FileError> {
    match environment.entry(&environment.resolved(path)) {
        Some(entry) if entry.content == Content::Folder => Ok(()),
        Some(entry) => {
            environment.put(&environment.resolved(path), DiskEntry { modified: environment.now, ..entry })
        }
        None => environment.write(path, b""),
    }
}

/// `chmod` with octal modes and `+x`.
fn chmod(environment: &Environment, arguments: &[String]) -> Outcome {
    let Some((mode, paths)) = arguments.split_first() else {
        return Outcome::fail(1, "chmod: missing operand\n".to_owned());
    };
    each(
        "chmod",
        paths,
        "",
        |_, path| {
            let entry = environment.entry(&environment.resolved(path)).ok_or(FileError::Missing)?;
            let mode = match u32::from_str_radix(mode, 8) {
                Ok(mode) => mode & 0o7777,
                Err(_) if mode.ends_with("+x") => entry.mode | 0o111,
                Err(_) => entry.mode,
            };
            match entry.content {
                Content::Folder => Ok(()),
                Content::File(_) | Content::Link(_) => {
                    environment.put(&environment.resolved(path), DiskEntry { mode, ..entry })
                }
            }
        },
        environment,
    )
}

fn transfer(environment: &Environment, program: &str, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let Some((to, sources)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Outcome::fail(1, format!("{program}: missing operand\n"));
    };
    let target = environment.path(to);
    let into = environment.is_folder(&target);
    let mut outcome = Outcome::default();
    for source in sources.iter().take_while(|_| environment.runs()) {
        let from = environment.path(source);
        let name = from.rsplit('/').next().unwrap_or_default();
        let to = if into { environment.path_in(&target, name) } else { target.clone() };
        let moved = program == "mv";
        if let Err(why) =
            transfer_one(environment, &from, &to, moved || flags.contains(['r', 'R', 'a']), moved)
        {
            outcome.err.push_str(&format!("{program}: '{source}': {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}

fn transfer_one(
    environment: &Environment,
    from: &str,
    to: &str,
    recursive: bool,
    moved: bool,
) -> Result<(), FileError> {
    let all = environment.walk(from);
    match all.first() {
        None => return Err(FileError::Missing),
        Some((_, entry)) if entry.content == Content::Folder && !recursive => return Err(FileError::Folder),
        Some(_) => {}
    }
    for (path, entry) in &all {
        let to = format!("{to}{}", &path[from.len()..]);
        match &entry.content {
            Content::Folder => environment.make_folders(&to)?,
            Content::File(_) | Content::Link(_) => environment.put(&to, entry.clone())?,
        }
    }
    if moved { all.iter().rev().try_for_each(|(path, _)| environment.remove(path)) } else { Ok(()) }
}

fn link(environment: &Environment, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let [to, path] = words.as_slice() else {
        return Outcome::fail(1, "ln: needs what to link to and a name\n".to_owned());
    };
    if !flags.contains('s') {
        return Outcome::fail(1, "ln: only symbolic links are simulated\n".to_owned());
    }
    let entry = DiskEntry { content: Content::Link((*to).clone()), mode: 0o777, modified: environment.now };
    match environment.put(&environment.path(path), entry) {
        Ok(()) => Outcome::default(),
        Err(why) => Outcome::fail(1, format!("ln: '{path}': {why}\n")),
    }
}

fn readlink(environment: &Environment, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let path = environment.path(words.first().map_or("", |word| word.as_str()));
    match environment.entry(&path).map(|entry| entry.content) {
        _ if flags.contains('f') => Outcome::text(format!("{}\n", environment.resolved(&path))),
        Some(Content::Link(to)) => Outcome::text(format!("{to}\n")),
        Some(Content::Folder | Content::File(_)) | None => Outcome::code(1),
    }
}

fn tee(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let (flags, words) = split(arguments);
    let mut outcome = Outcome::text(input);
    for word in words.into_iter().take_while(|_| environment.runs()) {
        let path = environment.path(word);
        let written = match flags.contains('a') {
            true => environment.append(&path, input),
            false => environment.write(&path, input),
        };
        if let Err(why) = written {
            outcome.err.push_str(&format!("tee: {word}: {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}

/// `dd` with `if=`, `of=`, `bs=` and `count=`.
fn copy_blocks(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let value = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let size = |text: &str| -> Option<usize> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "" => 1,
            "k" | "K" => 1024,
            "M" => 1024 * 1024,
            _ => return None,
        };
        digits.parse::<usize>().ok()?.checked_mul(unit)
    };
    let Some(block) = size(value("bs=").unwrap_or("512")) else {
        return Outcome::fail(1, "dd: invalid number\n".to_owned());
    };
    let length = value("count=").and_then(size).map(|count| count.saturating_mul(block));
    let (zeros, read);
    let bytes = match value("if=") {
        Some("/dev/zero" | "/dev/urandom" | "/dev/random") => {
            // One byte above the limit fails as any larger size would.
            let length = length.unwrap_or(usize::MAX).min(crate::limits::DISK_BYTES + 1);
            let bounds = environment.bounds();
            let mut room = Reservation::new(&bounds.allowance);
            if !bounds.work.spend(length) || !bounds.grow(&mut room, length) {
                return Outcome::code(1);
            }
            zeros = (vec![0; length], room);
            &zeros.0[..]
        }
        Some(file) => match environment.read(&environment.path(file)) {
            Ok(bytes) => {
                read = bytes;
                &read
            }
            Err(why) => return Outcome::fail(1, format!("dd: can't open '{file}': {why}\n")),
        },
        None => input,
    };
    let bytes = &bytes[..length.unwrap_or(usize::MAX).min(bytes.len())];
    let Some(file) = value("of=") else { return Outcome::text(bytes) };
    match environment.write(&environment.path(file), bytes) {
        Ok(()) => {
            let records = bytes.len().div_ceil(block.max(1));
            Outcome {
                err: format!("{records}+0 records in\n{records}+0 records out\n"),
                ..Outcome::default()
            }
        }
        Err(why) => Outcome::fail(1, format!("dd: error writing '{file}': {why}\n")),
    }
}

/// `find`: the entries at and below paths, filtered by `-name` and `-type`.
fn find(environment: &Environment, arguments: &[String]) -> Outcome {
    let at = arguments.iter().position(|word| word.starts_with('-')).unwrap_or(arguments.len());
    let (roots, tests) = arguments.split_at(at);
    let here = [".".to_owned()];
    let roots = if roots.is_empty() { &here[..] } else { roots };
    let option = |name: &str| tests.iter().position(|word| word == name).and_then(|at| tests.get(at + 1));
    let mut outcome = Outcome::default();
    let mut out = Buffer::new(&environment.bounds());
    for root in roots.iter().take_while(|_| environment.runs()) {
        let base = environment.path(root);
        let all = environment.walk(&base);
        if all.is_empty() {
            outcome.err.push_str(&format!("find: {root}: No such file or directory\n"));
            outcome.code = 1;
        }
        for (path, entry) in all {
            let name = path.rsplit('/').next().unwrap_or_default();
            let kind = match entry.content {
                Content::Folder => "d",
                Content::File(_) => "f",
                Content::Link(_) => "l",
            };
            let named = option("-name").is_none_or(|pattern| glob(pattern, name));
            if named && option("-type").is_none_or(|wanted| wanted == kind) {
                let below = &path[base.len()..];
                if !out.push(format!("{}{below}\n", root.trim_end_matches('/')).as_bytes()) {
                    break;
                }
            }
        }
    }
    outcome.out = Output::Reserved(out);
    outcome
}

/// Whether a name matches a pattern in which `*` matches any text.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    // The first match suffices: a later one leaves less text for the rest of the pattern.
    let step = |rest: &'_ str, part: &str| rest.find(part).map(|at| at + part.len());
    let Some(mut inner) = inner else { return false };
    for part in middle.split('*') {
        match step(inner, part) {
            Some(at) => inner = &inner[at..],
            None => return false,
        }
    }
    true
}
