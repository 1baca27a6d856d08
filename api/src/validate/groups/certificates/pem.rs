//! PEM parser with the rules of Go's decoder: text around blocks and malformed blocks are skipped. The
//! contents are decoded and not interpreted.

use crate::limits::PEM_BROKEN_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// PEM block: its label, headers and contents.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::validate) struct Block<'t> {
    /// Type of the block, such as `CERTIFICATE`.
    pub(in crate::validate) label: &'t str,
    /// Whether `Name: value` lines precede the contents.
    pub(in crate::validate) has_headers: bool,
    /// The decoded contents.
    pub(in crate::validate) contents: Vec<u8>,
}

/// Blocks of a text, in order. The search ends after [`PEM_BROKEN_MAX`] malformed blocks.
pub(in crate::validate) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let (mut rest, mut broken) = (text, 0);
    std::iter::from_fn(move || {
        while broken < PEM_BROKEN_MAX {
            let at = starts(rest)?;
            let after = &rest[at + BEGIN.len()..];
            match block(after) {
                Some((found, left)) => {
                    rest = left;
                    return Some(found);
                }
                None => {
                    rest = after;
                    broken += 1;
                }
            }
        }
        None
    })
}

/// Offset of the next line that begins a block.
fn starts(text: &str) -> Option<usize> {
    if text.starts_with(BEGIN) {
        return Some(0);
    }
    text.match_indices(BEGIN).map(|(at, _)| at).find(|at| text[..*at].ends_with('\n'))
}

/// Parses the block that begins with its label; also returns the rest of the text.
fn block(text: &str) -> Option<(Block<'_>, &str)> {
    let (line, body) = text.split_once('\n')?;
    let label = line.trim_end().strip_suffix(DASHES)?;
    let end = format!("-----END {label}-----");
    let at = body.find(&end)?;
    let (inside, left) = (&body[..at], &body[at + end.len()..]);
    let header = |line: &&str| line.contains(':');
    let has_headers = inside.lines().next().is_some_and(|line| header(&line));
    let contents = inside.lines().skip_while(header).flat_map(str::split_whitespace);
    let contents: String = contents.collect();
    let contents = STANDARD.decode(contents).ok()?;
    Some((Block { label, has_headers, contents }, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_blocks_are_found_between_other_text() {
        let good =
            |label: &str, inside: &str| format!("-----BEGIN {label}-----\n{inside}\n-----END {label}-----\n");
        let found = |text: &str| -> Vec<(String, bool)> {
            blocks(text).map(|block| (block.label.to_owned(), block.has_headers)).collect()
        };
        let one = |label: &str, headers: bool| (label.to_owned(), headers);
        assert_eq!(found(&good("A", "MA==")), [one("A", false)]);
        assert_eq!(
            found(&format!("before\n{}between\n{}", good("A B", "MA=\n="), good("C", ""))),
            [one("A B", false), one("C", false)]
        );
        assert_eq!(found(&good("A", "Proc-Type: 4\n\nMA==")), [one("A", true)]);
        for none in [
            "",
            "MA==",
            "x-----BEGIN A-----\nMA==\n-----END A-----",
            "-----BEGIN A-----\nMA==\n-----END B-----",
        ] {
            assert_eq!(found(none), [], "{none}");
        }
        let broken = format!("{}{}", good("A", "no base64!"), good("B", "MA=="));
        assert_eq!(found(&broken), [one("B", false)], "what is broken is passed over");
        assert_eq!(found("-----BEGIN -----BEGIN \n-----BEGIN"), []);
    }
}
