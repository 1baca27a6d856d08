//! `tar`, as far as `kubectl cp` and interactive use need it: creates, lists and extracts archives, also those of gzip.

use super::compress::{MAGIC, compress, decompress};
use super::{Outcome, Output, ToolCall};
use crate::limits::DISK_BYTES;
use crate::shell::disk::{Content, DiskEntry};
use crate::shell::env::Env;
use crate::shell::memory::Buffer;
use std::io::Read as _;
use tar::{Archive, Builder, EntryType, Header};

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct TarArguments {
    /// `c`, `t` or `x`.
    what: Option<char>,
    /// `-f`; "-" or `None` is the standard stream.
    archive: Option<String>,
    /// `-C`.
    folder: Option<String>,
    /// `-m`: extracted files get the current time.
    touch: bool,
    verbose: bool,
    /// `-z`: the archive is compressed. One that is read is looked at.
    compressed: bool,
    names: Vec<String>,
}

/// Options without effect here, where root owns every file.
const IGNORED: [&str; 6] = [
    "--no-same-permissions",
    "--no-same-owner",
    "--same-owner",
    "--same-permissions",
    "--warning=no-timestamp",
    "--overwrite",
];

impl TarArguments {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut rest = arguments.iter();
        let mut first = true;
        while let Some(word) = rest.next() {
            let flags = match word.strip_prefix('-') {
                _ if IGNORED.contains(&word.as_str()) => continue,
                Some("") | None if !first => {
                    parsed.names.push(word.clone());
                    continue;
                }
                Some(long) if long.starts_with('-') => {
                    match long.split_once('=') {
                        Some(("-directory", folder)) => parsed.folder = Some(folder.to_owned()),
                        Some(("-file", file)) => parsed.archive = Some(file.to_owned()),
                        _ => return Err(format!("unrecognized option '{word}'")),
                    }
                    continue;
                }
                Some(flags) => flags,
                None => word,
            };
            first = false;
            parsed.flags(flags, &mut rest)?;
        }
        Ok(parsed)
    }

    fn flags<'a>(&mut self, flags: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<(), String> {
        for flag in flags.chars() {
            let mut value =
                || rest.next().cloned().ok_or_else(|| format!("option requires an argument -- '{flag}'"));
            match flag {
                'c' | 't' | 'x' => self.what = Some(flag),
                'f' => self.archive = Some(value()?),
                'C' => self.folder = Some(value()?),
                'm' => self.touch = true,
                'v' => self.verbose = true,
                'p' | 'o' | 'h' => {}
                'z' => self.compressed = true,
                'j' | 'J' => return Err("only gzip is simulated".to_owned()),
                other => return Err(format!("invalid option -- '{other}'")),
            }
        }
        Ok(())
    }

    fn on_stream(&self) -> bool {
        matches!(self.archive.as_deref(), None | Some("-"))
    }
}

/// Whether `tar` reads its standard input with these arguments.
pub(super) fn reads(arguments: &[String]) -> bool {
    TarArguments::read(arguments)
        .is_ok_and(|parsed| parsed.on_stream() && matches!(parsed.what, Some('t' | 'x')))
}

pub(super) fn run(call: &ToolCall<'_>) -> Outcome {
    let ToolCall { env, input, .. } = *call;
    let arguments = call.arguments();
    let parsed = match TarArguments::read(arguments) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("tar: {why}\n")),
    };
    let base = env.path(parsed.folder.as_deref().unwrap_or("."));
    if !env.is_folder(&base) {
        let folder = parsed.folder.unwrap_or_default();
        return Outcome::fail(
            1,
            format!("tar: can't change directory to '{folder}': No such file or directory\n"),
        );
    }
    match parsed.what {
        Some('c') => create(call, &parsed, &base),
        Some(_) => {
            let stored;
            let bytes = match &parsed.archive {
                Some(file) if file != "-" => match env.read(&env.path(file)) {
                    Ok(bytes) if !env.work.spend(bytes.len()) => return Outcome::code(1),
                    Ok(bytes) => {
                        stored = bytes;
                        &stored
                    }
                    Err(why) => return Outcome::fail(1, format!("tar: can't open '{file}': {why}\n")),
                },
                Some(_) | None => input,
            };
            if !bytes.starts_with(&MAGIC) {
                return unpack(env, &parsed, &base, bytes);
            }
            match decompress(call, bytes) {
                Ok(bytes) => unpack(env, &parsed, &base, bytes.as_ref()),
                Err(why) => Outcome::fail(1, format!("tar: {why}\n")),
            }
        }
        None => Outcome::fail(1, "tar: must specify one of -c, -t or -x\n".to_owned()),
    }
}

fn create(call: &ToolCall<'_>, parsed: &TarArguments, base: &str) -> Outcome {
    let env = call.env;
    let mut outcome = Outcome::default();
    let mut any = false;
    let mut builder = Builder::new(Buffer::new(&env.bounds()));
    for given in parsed.names.iter().take_while(|_| env.runs()) {
        let root = env.path_in(base, given);
        let all = env.walk(&world_root(env, given, &root));
        if all.is_empty() {
            outcome.err.push_str(&format!("tar: {given}: No such file or directory\n"));
            outcome.code = 1;
        }
        let name = given.trim_start_matches('/');
        if name.len() < given.len() && !all.is_empty() {
            outcome.err.push_str("tar: removing leading '/' from member names\n");
        }
        any |= !all.is_empty();
        for (path, entry) in all {
            let below = path.strip_prefix(root.as_str()).unwrap_or_default().trim_start_matches('/');
            let member = match (name.trim_end_matches('/'), below) {
                ("", "") => ".".to_owned(),
                ("", below) => below.to_owned(),
                (name, "") => name.to_owned(),
                (name, below) => format!("{name}/{below}"),
            };
            if parsed.verbose {
                outcome.err.push_str(&format!("{member}\n"));
            }
            if let Err(error) = append(&mut builder, &member, &entry) {
                if !env.runs() {
                    break;
                }
                outcome.err.push_str(&format!("tar: {member}: {error}\n"));
                outcome.code = 1;
            }
        }
    }
    if !any {
        // kubectl takes the end of an empty archive for success, before the exit code reaches it.
        return outcome;
    }
    let Ok(bytes) = builder.into_inner() else { return Outcome::code(1) };
    let bytes = match parsed.compressed {
        true => match compress(call, bytes.as_ref()) {
            Some(bytes) => bytes,
            None => return Outcome::code(1),
        },
        false => bytes,
    };
    match &parsed.archive {
        Some(file) if file != "-" => {
            if let Err(why) = env.write(&env.path(file), bytes.as_ref()) {
                return Outcome::fail(1, format!("tar: can't open '{file}': {why}\n"));
            }
        }
        Some(_) | None => outcome.out = Output::Reserved(bytes),
    }
    outcome
}

/// The path of an argument. With a slash at its end, a link is followed to its folder.
fn world_root(env: &Env, given: &str, root: &str) -> String {
    if given.ends_with('/') { env.resolved(root) } else { root.to_owned() }
}

fn append(builder: &mut Builder<Buffer>, member: &str, entry: &DiskEntry) -> std::io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_mtime(u64::try_from(entry.modified).unwrap_or_default());
    header.set_size(0);
    header.set_uid(entry.user.into());
    header.set_gid(entry.group.into());
    header.set_username("root")?;
    header.set_groupname("root")?;
    match &entry.content {
        Content::Folder => {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, format!("{member}/"), std::io::empty())
        }
        Content::File(bytes) => {
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, member, &**bytes)
        }
        Content::Link(to) => {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, member, to)
        }
    }
}

fn unpack(env: &Env, parsed: &TarArguments, base: &str, bytes: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut out = Buffer::new(&env.bounds());
    let mut archive = Archive::new(bytes);
    let failed = |outcome: &mut Outcome, why: String| {
        outcome.err.push_str(&format!("tar: {why}\n"));
        outcome.code = 1;
    };
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return Outcome::fail(1, format!("tar: {error}\n")),
    };
    for member in entries.take_while(|_| env.runs()) {
        let mut member = match member {
            Ok(member) => member,
            Err(error) => {
                failed(&mut outcome, error.to_string());
                break;
            }
        };
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let wanted = |given: &String| {
            name.trim_end_matches('/') == given.trim_end_matches('/')
                || name.starts_with(&format!("{}/", given.trim_end_matches('/')))
        };
        if !parsed.names.is_empty() && !parsed.names.iter().any(wanted) {
            continue;
        }
        if parsed.verbose || parsed.what == Some('t') {
            out.push(format!("{name}\n").as_bytes());
        }
        if parsed.what == Some('t') {
            continue;
        }
        if let Err(why) = extract(env, parsed, &env.path_in(base, name.trim_start_matches('/')), &mut member)
        {
            failed(&mut outcome, format!("{name}: {why}"));
        }
    }
    outcome.out = Output::Reserved(out);
    outcome
}

/// Extracts one member of an archive.
fn extract(
    env: &Env,
    parsed: &TarArguments,
    path: &str,
    member: &mut tar::Entry<'_, &[u8]>,
) -> Result<(), String> {
    let header = member.header();
    let mode = header.mode().unwrap_or(0o644) & 0o7777;
    let stamp = header.mtime().ok().and_then(|at| i64::try_from(at).ok());
    let modified = stamp.filter(|_| !parsed.touch).unwrap_or(env.now);
    let kind = header.entry_type();
    let content = if kind.is_dir() {
        return env.make_folders(path).map_err(|why| why.to_string());
    } else if kind.is_symlink() {
        Content::Link(
            member.link_name_bytes().map(|to| String::from_utf8_lossy(&to).into_owned()).unwrap_or_default(),
        )
    } else if kind.is_file() {
        let mut bytes = Vec::new();
        // A sparse member may declare a larger size than a disk can hold.
        let limit = DISK_BYTES as u64 + 1;
        member.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Content::File(bytes.into())
    } else {
        return Err("unknown typeflag".to_owned());
    };
    if let Some((folder, _)) = path.rsplit_once('/') {
        env.make_folders(if folder.is_empty() { "/" } else { folder }).map_err(|why| why.to_string())?;
    }
    env.put(path, DiskEntry::new(content, mode, modified)).map_err(|why| why.to_string())
}
