//! The command line. Pure.

use anyhow::{Context, bail, ensure};

/// What the program shall do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Run one path in this process, which valgrind counts: `--path NAME --times N`.
    Run {
        /// The path's name.
        path: String,
        /// The number of operations.
        times: u64,
    },
    /// Compare with the accepted counts: `[--only NAME…]`.
    Judge {
        /// Names of the paths; empty for all.
        only: Vec<String>,
    },
    /// Accept counts: `--accept NAME… --why TEXT` or `--accept-all --why TEXT`.
    Accept {
        /// Names of the paths; empty for all.
        names: Vec<String>,
        /// The reason, which is kept beside the counts.
        why: String,
    },
}

impl Command {
    /// Reads the arguments, without the program's name.
    pub(super) fn parse(arguments: impl IntoIterator<Item = String>) -> anyhow::Result<Self> {
        let mut flags: Vec<(String, Vec<String>)> = Vec::new();
        // Cargo adds `--bench`.
        for word in arguments.into_iter().filter(|word| word != "--bench") {
            match (word.starts_with("--"), flags.last_mut()) {
                (true, _) => flags.push((word, Vec::new())),
                (false, Some((_, values))) => values.push(word),
                (false, None) => bail!("`{word}` follows no flag: {USAGE}"),
            }
        }
        let mut take = |flag: &str| {
            let at = flags.iter().position(|(name, _)| name == flag)?;
            Some(flags.remove(at).1)
        };
        let (path, times, only) = (take("--path"), take("--times"), take("--only"));
        let (accept, accept_all, why) = (take("--accept"), take("--accept-all"), take("--why"));
        ensure!(flags.is_empty(), "unknown flag {}: {USAGE}", flags[0].0);
        match (path, accept, accept_all, only) {
            (Some(path), None, None, None) => {
                let times = times.context("--path needs --times")?.concat().parse().context("--times")?;
                Ok(Self::Run { path: path.concat(), times })
            }
            (None, Some(names), None, None) => {
                ensure!(!names.is_empty(), "--accept needs names of paths; --accept-all accepts all");
                Ok(Self::Accept { names, why: reason(why)? })
            }
            (None, None, Some(names), None) => {
                ensure!(names.is_empty(), "--accept-all takes no names; --accept does");
                Ok(Self::Accept { names, why: reason(why)? })
            }
            (None, None, None, only) => {
                ensure!(why.is_none(), "--why belongs to --accept or --accept-all");
                Ok(Self::Judge { only: only.unwrap_or_default() })
            }
            _ => bail!("these flags exclude each other: {USAGE}"),
        }
    }
}

const USAGE: &str = "[--only NAME…] | --accept NAME… --why TEXT | --accept-all --why TEXT";

/// The text of `--why`, in one line.
fn reason(why: Option<Vec<String>>) -> anyhow::Result<String> {
    let text = why.unwrap_or_default().join(" ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(!text.is_empty(), "accepting a count needs a reason: --why \"TEXT\"");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> anyhow::Result<Command> {
        Command::parse(line.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn commands_are_told_apart() {
        assert_eq!(parse(&["--bench"]).unwrap(), Command::Judge { only: vec![] });
        let only = vec!["get".to_owned(), "list".to_owned()];
        assert_eq!(parse(&["--only", "get", "list", "--bench"]).unwrap(), Command::Judge { only });
        let run = Command::Run { path: "get".to_owned(), times: 7 };
        assert_eq!(parse(&["--path", "get", "--times", "7"]).unwrap(), run);
        let accept = |names: &[&str]| Command::Accept {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            why: "a checksum per write".to_owned(),
        };
        assert_eq!(parse(&["--accept", "get", "--why", "a checksum\tper\nwrite"]).unwrap(), accept(&["get"]));
        assert_eq!(parse(&["--accept-all", "--why", "a checksum", "per write"]).unwrap(), accept(&[]));
    }

    #[test]
    fn accepting_needs_names_and_a_reason() {
        for line in [
            &["--accept", "get"][..],
            &["--accept", "get", "--why"],
            &["--accept", "get", "--why", " \t"],
            &["--accept", "--why", "text"],
            &["--accept-all"],
            &["--accept-all", "get", "--why", "text"],
            &["--why", "text"],
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn misspelt_command_lines_are_refused() {
        for line in [&["get"][..], &["--onyl", "get"], &["--path", "get"], &["--only", "get", "--accept-all"]]
        {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }
}
