//! Programs about paths: `basename`, `dirname`, `realpath` and `mktemp`.

use super::{Outcome, Tool, ToolCall, plain};
use crate::shell::descriptor::next_random;
use crate::shell::disk::DiskEntry;

pub(super) const TOOLS: &[Tool] = &[
    plain("basename", basename),
    plain("dirname", dirname),
    plain("realpath", realpath),
    plain("mktemp", temporary),
];

/// The template of a temporary file.
const TEMPLATE: &str = concat!("tmp.XX", "XX", "XX");

fn last(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.is_empty() => "",
        "" => "/",
        path => path.rsplit('/').next().unwrap_or_default(),
    }
}

fn basename(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "as:", &[("multiple", 'a'), ("suffix", 's')]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("basename: {why}\n")),
    };
    let (names, suffix): (&[String], Option<&str>) = match (parsed.operands.as_slice(), parsed.value('s')) {
        (names, Some(suffix)) => (names, Some(suffix)),
        (names, None) if parsed.has('a') => (names, None),
        ([name], None) => (std::slice::from_ref(name), None),
        ([name, suffix], None) => (std::slice::from_ref(name), Some(suffix)),
        _ => return Outcome::fail(1, "basename: missing operand\n".to_owned()),
    };
    let shown = |path: &String| {
        let name = last(path);
        let cut = suffix.and_then(|suffix| name.strip_suffix(suffix)).filter(|cut| !cut.is_empty());
        format!("{}\n", cut.unwrap_or(name))
    };
    Outcome::text(names.iter().map(shown).collect::<String>())
}

fn dirname(call: &ToolCall<'_>) -> Outcome {
    let shown = |path: &String| {
        let trimmed = path.trim_end_matches('/');
        let folder = match trimmed.rsplit_once('/') {
            None if path.starts_with('/') => "/",
            None => ".",
            Some((folder, _)) => match folder.trim_end_matches('/') {
                "" => "/",
                folder => folder,
            },
        };
        format!("{folder}\n")
    };
    if call.argv.len() < 2 {
        return Outcome::fail(1, "dirname: missing operand\n".to_owned());
    }
    Outcome::text(call.arguments().iter().map(shown).collect::<String>())
}

fn realpath(call: &ToolCall<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut text = String::new();
    for path in super::operands(call.arguments()) {
        let found = call.env.resolved(&call.env.path(path));
        if call.env.entry(&found).is_some() {
            text.push_str(&format!("{found}\n"));
        } else {
            outcome.err.push_str(&format!("realpath: {path}: No such file or directory\n"));
            outcome.code = 1;
        }
    }
    Outcome { out: Outcome::text(text).out, ..outcome }
}

/// `mktemp`: a name from the work so far, which no other command of the container has.
fn temporary(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "dp:qtu", &[("directory", 'd'), ("tmpdir", 'p')]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("mktemp: {why}\n")),
    };
    let folder = parsed.value('p').filter(|folder| !folder.is_empty()).unwrap_or("/tmp");
    let template = parsed.operands.first().map_or(TEMPLATE, String::as_str);
    let in_folder = parsed.operands.is_empty() || parsed.has('p') || parsed.has('t');
    let template = if in_folder { format!("{folder}/{template}") } else { template.to_owned() };
    let count = template.len() - template.trim_end_matches('X').len();
    if count < 6 {
        return Outcome::fail(1, format!("mktemp: {template}: Invalid argument\n"));
    }
    let mut seed = call.env.work.total() ^ call.env.now.unsigned_abs();
    for _ in 0..100 {
        let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let name: String = (0..count)
            .map(|_| char::from(letters[usize::from(next_random(&mut seed)) % letters.len()]))
            .collect();
        let path = format!("{}{name}", &template[..template.len() - count]);
        let whole = call.env.path(&path);
        if call.env.entry(&whole).is_some() {
            continue;
        }
        let entry = match parsed.has('d') {
            true => DiskEntry { mode: 0o700, ..DiskEntry::folder(call.env.now) },
            false => DiskEntry { mode: 0o600, ..DiskEntry::file(b"", call.env.now) },
        };
        return match if parsed.has('u') { Ok(()) } else { call.env.put(&whole, entry) } {
            Ok(()) => Outcome::text(format!("{path}\n")),
            Err(why) => Outcome::fail(1, format!("mktemp: {template}: {why}\n")),
        };
    }
    Outcome::fail(1, format!("mktemp: {template}: File exists\n"))
}
