//! Flags of `kstore-server report`, which the module `report` carries out, and [`ReportFile`] of `run`.

use super::flag::{Flag, add, parsed, put, repeated, required};
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

pub(super) const HELP: &str = "\
Saves what the page of `kstore-server ui` shows into one HTML file of at most 5 MiB, which opens in a browser without a server: each \
write of the window with its author and its cause, and the objects at each revision. The file has what the kubeconfig's user may see. \
It also has what the scheduler said about pods, a reading of the server's metrics, and marks: tags, and what --mark says. \
Values of Secrets, keys, certificates and tokens are hidden. If it would be too large, what explains least is left out, and the file says \
how much of what.

Examples:
  kstore-server report cluster.html
  kstore-server report shop.html -n shop --since 5m
  kstore-server report test.html --title TestRollout --failure test.log --mark 412='the deploy began'";

pub(super) const FLAGS: &[Flag<ReportArgs>] = &[
    Flag::path(
        "file",
        "FILE",
        |o: &mut ReportArgs, path| o.file = path,
        "The file; one that exists is replaced",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "since",
        "REVISION",
        |o: &mut ReportArgs, text| put(&mut o.since, parsed(text).map(Some)),
        "First revision: a number, 5m, 23:38:56, now~2 [default: the oldest one that the page shows]",
    ),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut ReportArgs, text| put(&mut o.namespace, parsed(text)),
        "Only objects of this namespace, and those without one [default: all]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::value(
        "title",
        "TEXT",
        |o: &mut ReportArgs, text| put(&mut o.title, parsed(text)),
        "What the file is about, such as the name of a test [default: the server's URL]",
    ),
    Flag::path(
        "failure",
        "FILE",
        |o: &mut ReportArgs, path| o.failure = Some(path),
        "Text that says what failed, of which the last 64 KiB are in the report; - is standard input",
    ),
    Flag::value(
        "mark",
        "REVISION=TEXT",
        |o: &mut ReportArgs, text| add(&mut o.marks, parsed(text)),
        "Mark on slider and timeline after a revision: a number, 5m, 23:38:56, now~2. May be repeated",
    )
    .shaped(repeated),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut ReportArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
];

/// Arguments of `report`.
#[derive(Debug, Default)]
pub struct ReportArgs {
    /// The file to write.
    pub file: PathBuf,
    /// The first revision; `None`: the oldest one from which the server tells changes.
    pub since: Option<String>,
    /// The only namespace; empty: all.
    pub namespace: String,
    /// What the file is about; empty: the server.
    pub title: String,
    /// The file with what failed; `-` is standard input.
    pub failure: Option<PathBuf>,
    /// Marks on slider and timeline.
    pub marks: Vec<MarkArg>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
}

/// A mark: the text of a revision, and what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkArg {
    /// The revision as a text that names one.
    pub revision: String,
    /// What happened.
    pub text: String,
}

impl FromStr for MarkArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((revision, text)) if !revision.is_empty() && !text.is_empty() => {
                Ok(Self { revision: revision.to_owned(), text: text.to_owned() })
            }
            _ => Err(format!("{text:?} is no mark: write REVISION=TEXT, for example 412='the deploy began'")),
        }
    }
}

/// The report of a cluster of `run`: where, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// The file to write.
    pub path: PathBuf,
    /// Whether it is written also if the command succeeds.
    pub is_always: bool,
}

impl FromStr for ReportFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, is_always) = match text.strip_suffix(":always") {
            Some(path) => (path, true),
            None => (text, false),
        };
        Ok(Self { path: path.into(), is_always })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;

    #[test]
    fn a_report_has_a_file_and_perhaps_a_beginning_and_a_namespace() {
        let parse = |flags: &str| Cli::try_parse_from(format!("kstore-server report {flags}").split(' '));
        let Ok(Some(Command::Report(args))) = parse("a.html --since 5m -n shop").map(|cli| cli.command)
        else {
            panic!("not report")
        };
        assert_eq!(
            (args.file, args.since, args.namespace.as_str()),
            ("a.html".into(), Some("5m".to_owned()), "shop")
        );
        assert!(parse("--since 5m").unwrap_err().to_string().contains("FILE"));
        let Ok(Some(Command::Report(args))) =
            parse("a.html --title t --failure - --mark 5m=a=b --mark 7=c").map(|cli| cli.command)
        else {
            panic!("not report")
        };
        let marks: Vec<_> = args.marks.iter().map(|mark| (&*mark.revision, &*mark.text)).collect();
        assert_eq!(
            (args.title.as_str(), args.failure, marks),
            ("t", Some("-".into()), vec![("5m", "a=b"), ("7", "c")])
        );
        for wrong in ["7", "=c", "7="] {
            assert!(
                parse(&format!("a.html --mark {wrong}")).unwrap_err().to_string().contains("REVISION=TEXT")
            );
        }
    }

    #[test]
    fn the_report_of_run_is_for_failures_unless_it_says_always() {
        let of = |text: &str| text.parse::<ReportFile>().unwrap();
        assert_eq!(of("a.html"), ReportFile { path: "a.html".into(), is_always: false });
        assert_eq!(of("a:b.html:always"), ReportFile { path: "a:b.html".into(), is_always: true });
    }
}
