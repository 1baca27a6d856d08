//! Sums of files: `md5sum`, `sha1sum`, `sha256sum`, `sha512sum` and `cksum`.

use super::digest::{cksum, md5, sha1};
use super::{Outcome, Tool, ToolCall, whole};
use sha2::{Digest as _, Sha256, Sha512};

pub(super) const TOOLS: &[Tool] = &[
    whole("md5sum", reads, |call| sums(call, |bytes| hex(&md5(bytes)))),
    whole("sha1sum", reads, |call| sums(call, |bytes| hex(&sha1(bytes)))),
    whole("sha256sum", reads, |call| sums(call, |bytes| hex(&Sha256::digest(bytes)))),
    whole("sha512sum", reads, |call| sums(call, |bytes| hex(&Sha512::digest(bytes)))),
    whole("cksum", reads, checksums),
];

/// The flags of all but `cksum`.
const FLAGS: &str = "csw";

fn reads(arguments: &[String]) -> bool {
    super::reads(arguments, FLAGS)
}

/// Work of a sum beside that of a read, in units a byte: the slowest is some ten times a copy.
const SUM_WORK: usize = 12;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sum of a file; `-` is the input. The error is the text of the file system.
fn sum_of(call: &ToolCall<'_>, file: &str, sum: fn(&[u8]) -> String) -> Result<String, String> {
    let read;
    let bytes = match file {
        "-" => call.input,
        file => {
            read = call.env.read(&call.env.path(file)).map_err(|why| why.to_string())?;
            &read
        }
    };
    if call.env.work.spend(SUM_WORK * bytes.len()) { Ok(sum(bytes)) } else { Err(String::new()) }
}

fn sums(call: &ToolCall<'_>, sum: fn(&[u8]) -> String) -> Outcome {
    let name = &call.argv[0];
    let parsed = match super::parse(call.arguments(), FLAGS, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("{name}: {why}\n")),
    };
    let input = ["-".to_owned()];
    let files = if parsed.operands.is_empty() { &input[..] } else { &parsed.operands };
    if parsed.has('c') {
        return check(call, files, (parsed.has('s'), parsed.has('w')), sum);
    }
    let (mut text, mut err) = (String::new(), String::new());
    for file in files.iter().take_while(|_| call.env.runs()) {
        match sum_of(call, file, sum) {
            Ok(sum) => text.push_str(&format!("{sum}  {file}\n")),
            Err(why) => err.push_str(&format!("{name}: can't open '{file}': {why}\n")),
        }
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::text(text) }
}

/// `-c`: compares the files that a list names with its sums. `silent` prints only errors of files, `warns` names bad lines.
fn check(
    call: &ToolCall<'_>,
    lists: &[String],
    (silent, warns): (bool, bool),
    sum: fn(&[u8]) -> String,
) -> Outcome {
    let name = &call.argv[0];
    let (mut text, mut err, mut code) = (String::new(), String::new(), 0);
    for list in lists.iter().take_while(|_| call.env.runs()) {
        let read = call.env.read(&call.env.path(list));
        let bytes = match &read {
            _ if list == "-" => call.input,
            Ok(bytes) => bytes,
            Err(why) => {
                return Outcome { code: 1, ..Outcome::fail(1, format!("{err}{name}: {list}: {why}\n")) };
            }
        };
        let (mut total, mut wrong) = (0, 0);
        for line in super::lines(bytes).take_while(|_| call.env.runs()) {
            total += 1;
            let line = String::from_utf8_lossy(line).into_owned();
            // Two blanks, or a blank and a star for binary files.
            let named = line.split_once(' ').map(|(sum, file)| (sum, file.strip_prefix([' ', '*'])));
            let Some((wanted, Some(file))) = named else {
                wrong += 1;
                if warns {
                    err.push_str(&format!("{name}: invalid format\n"));
                }
                continue;
            };
            let found = sum_of(call, file, sum);
            if let Err(why) = &found {
                err.push_str(&format!("{name}: can't open '{file}': {why}\n"));
            }
            let is_right = found.is_ok_and(|found| found.eq_ignore_ascii_case(wanted));
            wrong += usize::from(!is_right);
            if !silent {
                text.push_str(&format!("{file}: {}\n", if is_right { "OK" } else { "FAILED" }));
            }
        }
        if wrong > 0 {
            code = 1;
            if !silent {
                err.push_str(&format!(
                    "{name}: WARNING: {wrong} of {total} computed checksums did NOT match\n"
                ));
            }
        }
        if total == 0 {
            code = 1;
            err.push_str(&format!("{name}: {list}: no checksum lines found\n"));
        }
    }
    Outcome { code, err, ..Outcome::text(text) }
}

fn checksums(call: &ToolCall<'_>) -> Outcome {
    let files = super::operands(call.arguments());
    let (mut text, mut err) = (String::new(), String::new());
    let files = if files.is_empty() { vec![None] } else { files.into_iter().map(Some).collect() };
    for file in files.into_iter().take_while(|_| call.env.runs()) {
        let read;
        let bytes = match file.filter(|file| *file != "-") {
            None => call.input,
            Some(file) => match call.env.read(&call.env.path(file)) {
                Ok(bytes) => {
                    read = bytes;
                    &read
                }
                Err(why) => {
                    err.push_str(&format!("cksum: {file}: {why}\n"));
                    continue;
                }
            },
        };
        if call.env.work.spend(SUM_WORK * bytes.len()) {
            let name = file.map(|file| format!(" {file}")).unwrap_or_default();
            text.push_str(&format!("{} {}{name}\n", cksum(bytes), bytes.len()));
        }
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::text(text) }
}
