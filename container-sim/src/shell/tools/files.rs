//! Programs of a simulated container that change files.

use super::{Outcome, Tool, ToolCall, plain, whole};
use crate::shell::disk::{Content, DiskEntry};
use crate::shell::env::Env;
use crate::shell::files::FileError;
use crate::shell::memory::Reservation;

pub(super) const TOOLS: &[Tool] = &[
    plain("mkdir", |call| {
        each(call, "can't create directory", |flags, path| {
            if flags.contains('p') {
                call.env.make_folders(path)
            } else {
                call.env.put(path, DiskEntry::folder(call.env.now))
            }
        })
    }),
    plain("rmdir", |call| each(call, "", |_, path| call.env.remove(path))),
    plain("rm", |call| each(call, "can't remove", |flags, path| remove(call.env, flags, path))),
    plain("unlink", |call| each(call, "can't remove", |_, path| call.env.remove(path))),
    plain("touch", |call| {
        each(call, "", |flags, path| if flags.contains('c') { Ok(()) } else { touch(call.env, path) })
    }),
    plain("chmod", |call| chmod(call.env, call.arguments())),
    plain("cp", |call| transfer(call.env, "cp", call.arguments())),
    plain("mv", |call| transfer(call.env, "mv", call.arguments())),
    plain("ln", |call| link(call.env, call.arguments())),
    plain("readlink", |call| readlink(call.env, call.arguments())),
    whole(
        "dd",
        |arguments| !arguments.iter().any(|word| word.starts_with("if=")),
        |call| copy_blocks(call.env, call.arguments(), call.input),
    ),
    plain("sync", |_| Outcome::default()),
    plain("chown", |call| super::stat::change_owner(call, false)),
    plain("chgrp", |call| super::stat::change_owner(call, true)),
    whole("tar", super::tar::reads, super::tar::run),
];

fn split(arguments: &[String]) -> (String, Vec<&String>) {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.len() > 1 && word.starts_with('-'));
    (flags.into_iter().cloned().collect(), words)
}

/// Applies an operation to each path, and continues after a failure.
fn each(call: &ToolCall<'_>, failure: &str, act: impl Fn(&str, &str) -> Result<(), FileError>) -> Outcome {
    let program = &call.argv[0];
    let (flags, words) = split(call.arguments());
    let mut outcome = Outcome::default();
    if words.is_empty() && !flags.contains('f') {
        return Outcome::fail(1, format!("{program}: missing operand\n"));
    }
    for word in words.into_iter().take_while(|_| call.env.runs()) {
        if let Err(why) = act(&flags, &call.env.path(word)) {
            let what = if failure.is_empty() { String::new() } else { format!("{failure} ") };
            outcome.err.push_str(&format!("{program}: {what}'{word}': {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}

fn remove(env: &Env, flags: &str, path: &str) -> Result<(), FileError> {
    let recursive = flags.contains(['r', 'R']);
    match env.entry(path).map(|entry| entry.content) {
        None if flags.contains('f') => Ok(()),
        Some(Content::Folder) if !recursive => Err(FileError::Folder),
        Some(Content::Folder) => env.walk(path).iter().rev().try_for_each(|(path, _)| env.remove(path)),
        Some(Content::File(_) | Content::Link(_)) | None => env.remove(path),
    }
}

fn touch(env: &Env, path: &str) -> Result<(), FileError> {
    match env.entry(&env.resolved(path)) {
        Some(entry) if entry.content == Content::Folder => Ok(()),
        Some(entry) => env.put(&env.resolved(path), DiskEntry { modified: env.now, ..entry }),
        None => env.write(path, b""),
    }
}

/// `chmod` with octal and symbolic modes.
fn chmod(env: &Env, arguments: &[String]) -> Outcome {
    let recursive = arguments.iter().any(|word| word == "-R");
    let words: Vec<&String> =
        arguments.iter().filter(|word| !matches!(word.as_str(), "-R" | "-v" | "-f" | "-c")).collect();
    let Some((mode, paths)) = words.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Outcome::fail(1, "chmod: missing operand\n".to_owned());
    };
    let mut outcome = Outcome::default();
    for path in paths.iter().take_while(|_| env.runs()) {
        let root = env.resolved(&env.path(path));
        let all = if recursive {
            env.walk(&root)
        } else {
            env.entry(&root).map(|entry| (root, entry)).into_iter().collect()
        };
        if all.is_empty() {
            outcome.err.push_str(&format!("chmod: {path}: {}\n", FileError::Missing));
            outcome.code = 1;
        }
        for (path, entry) in all {
            let is_folder = entry.content == Content::Folder;
            let Some(mode) = changed_mode(mode, entry.mode, is_folder, env.umask) else {
                return Outcome::fail(1, format!("chmod: invalid mode '{mode}'\n"));
            };
            if let Err(why) = env.set_mode(&path, mode) {
                outcome.err.push_str(&format!("chmod: {path}: {why}\n"));
                outcome.code = 1;
            }
        }
    }
    outcome
}

/// The mode that `given` makes of `mode`: octal digits, or clauses such as `u+rwx,go-w`. `None` if it is none.
fn changed_mode(given: &str, mode: u32, is_folder: bool, umask: u32) -> Option<u32> {
    if let Ok(octal) = u32::from_str_radix(given, 8) {
        return Some(octal & 0o7777);
    }
    let mut mode = mode;
    for clause in given.split(',') {
        let at = clause.find(['+', '-', '='])?;
        let (who, change) = clause.split_at(at);
        let mut places = 0;
        for c in who.chars() {
            places |= match c {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            };
        }
        if who.is_empty() {
            places = 0o7777 & !umask;
        }
        let mut bits = 0;
        for c in change[1..].chars() {
            bits |= match c {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                'X' if is_folder || mode & 0o111 != 0 => 0o111,
                'X' => 0,
                's' => 0o6000,
                't' => 0o1000,
                _ => return None,
            };
        }
        match change.as_bytes()[0] {
            b'+' => mode |= bits & places,
            b'-' => mode &= !(bits & places),
            _ => mode = (mode & !(places & 0o777)) | (bits & places),
        }
    }
    Some(mode)
}

fn transfer(env: &Env, program: &str, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let Some((to, sources)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Outcome::fail(1, format!("{program}: missing operand\n"));
    };
    let target = env.path(to);
    let into = env.is_folder(&target);
    let mut outcome = Outcome::default();
    for source in sources.iter().take_while(|_| env.runs()) {
        let from = env.path(source);
        let name = from.rsplit('/').next().unwrap_or_default();
        let to = if into { env.path_in(&target, name) } else { target.clone() };
        let moved = program == "mv";
        if let Err(why) = transfer_one(env, &from, &to, moved || flags.contains(['r', 'R', 'a']), moved) {
            outcome.err.push_str(&format!("{program}: '{source}': {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}

fn transfer_one(env: &Env, from: &str, to: &str, recursive: bool, moved: bool) -> Result<(), FileError> {
    let all = env.walk(from);
    match all.first() {
        None => return Err(FileError::Missing),
        Some((_, entry)) if entry.content == Content::Folder && !recursive => return Err(FileError::Folder),
        Some(_) => {}
    }
    for (path, entry) in &all {
        let to = format!("{to}{}", &path[from.len()..]);
        match &entry.content {
            Content::Folder => env.make_folders(&to)?,
            Content::File(_) | Content::Link(_) => env.put(&to, entry.clone())?,
        }
    }
    if moved { all.iter().rev().try_for_each(|(path, _)| env.remove(path)) } else { Ok(()) }
}

fn link(env: &Env, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let [to, path] = words.as_slice() else {
        return Outcome::fail(1, "ln: needs what to link to and a name\n".to_owned());
    };
    if !flags.contains('s') {
        return Outcome::fail(1, "ln: only symbolic links are simulated\n".to_owned());
    }
    let entry = DiskEntry::new(Content::Link((*to).clone()), 0o777, env.now);
    match env.put(&env.path(path), entry) {
        Ok(()) => Outcome::default(),
        Err(why) => Outcome::fail(1, format!("ln: '{path}': {why}\n")),
    }
}

fn readlink(env: &Env, arguments: &[String]) -> Outcome {
    let (flags, words) = split(arguments);
    let path = env.path(words.first().map_or("", |word| word.as_str()));
    match env.entry(&path).map(|entry| entry.content) {
        _ if flags.contains('f') => Outcome::text(format!("{}\n", env.resolved(&path))),
        Some(Content::Link(to)) => Outcome::text(format!("{to}\n")),
        Some(Content::Folder | Content::File(_)) | None => Outcome::code(1),
    }
}

/// `dd` with `if=`, `of=`, `bs=` and `count=`.
fn copy_blocks(env: &Env, arguments: &[String], input: &[u8]) -> Outcome {
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
            let bounds = env.bounds();
            let mut room = Reservation::new(&bounds.allowance);
            if !bounds.work.spend(length) || !bounds.grow(&mut room, length) {
                return Outcome::code(1);
            }
            zeros = (vec![0; length], room);
            &zeros.0[..]
        }
        Some(file) => match env.read(&env.path(file)) {
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
    match env.write(&env.path(file), bytes) {
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
