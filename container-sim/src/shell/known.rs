//! Decides before a command starts whether the simulated shell can run it to its end. In doubt the answer is no: a command
//! that would run differently in a real shell is refused.

use super::syntax::{CommandKind, Dialect, List, Parser, TOO_DEEP, Word, WordPart, inspect};
use super::{ImagePrograms, builtins, is_shell, program_name, tools};
use crate::limits::{ARGUMENT_BYTES, ARGUMENTS_BYTES, NESTED_SHELLS};
use crate::script::ScriptedAnswer;
use std::collections::BTreeMap;

/// Why the simulated shell does not run a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// The shell has no such command.
    #[error("{0:?} is not one of the simulated shell's commands")]
    Command(String),
    /// A variable names the command.
    #[error("the simulated shell does not know before which command a variable names")]
    Variable,
    /// A program would get arguments for which it is not simulated.
    #[error("{0:?}: {1}")]
    Arguments(String, String),
    /// The command is longer than a real kernel takes.
    #[error("Argument list too long")]
    TooLong,
    /// A syntax error that not every shell would find, or a script that is nested too deeply.
    #[error("{0}")]
    Syntax(String),
}

/// Scripted answers by command line: the words of the command joined by blanks.
type Answers = BTreeMap<String, ScriptedAnswer>;

/// Checks that the simulated shell runs `argv` as a real shell would in a container with these programs of its image, or that
/// `answers` has its command line.
///
/// # Errors
/// The reason why it does not.
pub fn check_runnable(
    argv: &[String],
    answers: &Answers,
    programs: &ImagePrograms,
) -> Result<(), NotRunnable> {
    let longest = argv.iter().map(String::len).max().unwrap_or(0);
    if longest > ARGUMENT_BYTES || argv.iter().map(|word| word.len() + 1).sum::<usize>() > ARGUMENTS_BYTES {
        return Err(NotRunnable::TooLong);
    }
    check(argv, Known { answers, programs }, &[], 0)
}

/// What a container has beside the programs of every image.
#[derive(Clone, Copy)]
struct Known<'a> {
    answers: &'a Answers,
    programs: &'a ImagePrograms,
}

/// What stands for a word that is not known before the command runs.
const UNKNOWN: &str = "$";

fn check(argv: &[String], known: Known<'_>, functions: &[&str], depth: usize) -> Result<(), NotRunnable> {
    if known.answers.contains_key(&argv.join(" ")) {
        return Ok(());
    }
    if depth > NESTED_SHELLS {
        return Err(NotRunnable::Syntax(TOO_DEEP.to_owned()));
    }
    let Some(first) = argv.first() else { return Err(NotRunnable::Command(String::new())) };
    if functions.contains(&first.as_str()) {
        return Ok(());
    }
    if is_shell(first) {
        return shell(argv, known, depth);
    }
    let name = program_name(first);
    let Some(tool) = tools::find_in(known.programs, first) else {
        return Err(NotRunnable::Command(first.clone()));
    };
    (tool.check)(&argv[1..]).map_err(|why| NotRunnable::Arguments(first.clone(), why))?;
    match tools::runs(name, &argv[1..]) {
        Some(inner)
            if inner.iter().any(|word| word == UNKNOWN)
                && inner.first().is_none_or(|first| first == UNKNOWN) =>
        {
            Err(NotRunnable::Variable)
        }
        Some(inner) if !inner.is_empty() => check(&inner, known, &[], depth + 1),
        Some(_) | None => Ok(()),
    }
}

/// A shell with its arguments.
fn shell(argv: &[String], known: Known<'_>, depth: usize) -> Result<(), NotRunnable> {
    let flags: Vec<&String> = argv[1..].iter().take_while(|word| word.starts_with('-')).collect();
    let is_text = flags.iter().any(|flag| !flag.starts_with("--") && flag.contains('c'));
    // The words behind `-o` belong to it.
    let mut at = 1;
    while argv.get(at).is_some_and(|word| word.starts_with('-')) {
        at += if argv[at].ends_with('o') && !argv[at].starts_with("--") { 2 } else { 1 };
    }
    let dialect = if program_name(&argv[0]) == "bash" { Dialect::Bash } else { Dialect::Ash };
    match argv.get(at) {
        Some(text) if is_text && text == UNKNOWN => Err(NotRunnable::Variable),
        Some(text) if is_text => script(text, known, dialect, depth + 1),
        Some(file) => Err(NotRunnable::Command(file.clone())),
        // A shell that reads commands from its input, which is empty.
        None => Ok(()),
    }
}

fn known_text(word: &Word) -> String {
    let is_pattern =
        word.0.iter().any(|part| matches!(part, WordPart::Text(text) if text.contains(['*', '?', '['])));
    word.literal().filter(|_| !is_pattern).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// What `bash` knows and the simulated shell does not parse.
const BASH_ONLY: [&str; 4] = ["<(", ">(", "coproc", "select"];

/// The commands that a script runs: all, or those of the lines before the one that no shell can parse, at which a shell ends.
///
/// # Errors
/// The error, if another shell may parse the script: that of the image is not known.
fn commands(text: &str, dialect: Dialect) -> Result<List, NotRunnable> {
    let mut parser = Parser::new(text, 0, dialect, 1);
    let mut list = List::new();
    loop {
        match parser.next_line() {
            Ok(Some(line)) => list.extend(line),
            Ok(None) => return Ok(list),
            Err(error) => {
                let may_be_right = match dialect {
                    Dialect::Ash => Parser::new(text, 0, Dialect::Bash, 1).all().is_ok(),
                    Dialect::Bash => false,
                };
                let is_of_bash = BASH_ONLY.iter().any(|word| text.contains(word));
                return match may_be_right || is_of_bash || error.text == TOO_DEEP {
                    true => Err(NotRunnable::Syntax(error.text)),
                    false => Ok(list),
                };
            }
        }
    }
}

fn script(text: &str, known: Known<'_>, dialect: Dialect, depth: usize) -> Result<(), NotRunnable> {
    let list = commands(text, dialect)?;
    let found = inspect(&list);
    for command in &found.commands {
        let CommandKind::Simple { words, .. } = &command.kind else { continue };
        let Some(first) = words.first() else { continue };
        let first = first.literal().ok_or(NotRunnable::Variable)?;
        let words: Vec<String> = words.iter().map(known_text).collect();
        let words = [std::slice::from_ref(&first), &words[1..]].concat();
        if found.functions.contains(&first.as_str()) || known.answers.contains_key(&words.join(" ")) {
            continue;
        }
        let inner = match first.as_str() {
            "exec" => words[1..].to_vec(),
            "command" if words.get(1).is_none_or(|word| !word.starts_with('-')) => words[1..].to_vec(),
            // Texts that are scripts.
            "eval" | "trap" => {
                let text = words.get(1).cloned().unwrap_or_default();
                if words[1..].iter().any(|word| word == UNKNOWN) {
                    return Err(NotRunnable::Variable);
                }
                let text = if first == "eval" { words[1..].join(" ") } else { text };
                if depth > NESTED_SHELLS {
                    return Err(NotRunnable::Syntax(TOO_DEEP.to_owned()));
                }
                let is_text = first == "eval" || (words.len() > 2 && text != "-");
                if is_text {
                    nested(&text, known, dialect, depth + 1, &found.functions)?;
                }
                continue;
            }
            "." | "source" => return Err(NotRunnable::Command(words.join(" "))),
            name if builtins::find(name, dialect).is_some() => continue,
            _ => words,
        };
        if inner.first().is_some_and(|first| first == UNKNOWN) {
            return Err(NotRunnable::Variable);
        }
        let is_inner_builtin = inner.first().is_none_or(|first| first_is_builtin(first, dialect));
        if !is_inner_builtin {
            check(&inner, known, &found.functions, depth + 1)?;
        }
    }
    Ok(())
}

fn first_is_builtin(name: &str, dialect: Dialect) -> bool {
    builtins::find(name, dialect).is_some()
}

/// A text inside of a script, which may call the script's functions.
fn nested(
    text: &str,
    known: Known<'_>,
    dialect: Dialect,
    depth: usize,
    functions: &[&str],
) -> Result<(), NotRunnable> {
    let defined: String = functions.iter().map(|name| format!("{name}() {{ :; }}\n")).collect();
    script(&format!("{defined}{text}"), known, dialect, depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argv: &[&str]) -> Result<(), NotRunnable> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let answers = BTreeMap::from([("redis-cli ping".to_owned(), ScriptedAnswer::default())]);
        check_runnable(&argv, &answers, &BTreeMap::from([("/agnhost".to_owned(), "agnhost".to_owned())]))
    }

    #[test]
    fn commands_that_end_are_runnable() {
        for argv in [
            &["sh", "-c", "echo hi"][..],
            &["/bin/sh", "-c", "echo hi > /tmp/x && cat /tmp/x | wc -l; exit 3"],
            &["sh", "-c", "A=b; echo $A; sh -c 'sleep 1'\n[ -f /x ] || false"],
            &["sh", "-c", "while true; do date; sleep 5; done"],
            &[
                "sh",
                "-c",
                "for i in $(seq 3); do X=$(date); if [ $i = 2 ]; then break; fi; done; echo $((i+1))",
            ],
            &["sleep", "5"],
            &["sh", "-c", "for f in /data/*; do echo $f; done; rm /data/*"],
            &["sh", "-ec", "f() { return 3; }; trap 'echo bye' EXIT; case $1 in a) f;; esac; wait"],
            &["bash", "-c", "a=(1 2); [[ ${a[0]} == 1 ]] && echo `date` & wait"],
            &["sh", "-c", "set -e; exec sleep 5"],
            &["/bin/echo", "*"],
            &["redis-cli", "ping"],
            &["tail", "-f", "/dev/null"],
            &["sh", "-c", "echo hi; sleep infinity"],
            &["/agnhost", "mounttest", "--file_content=/x"],
            &["/agnhost"],
            &["sh", "-c", "redis-cli ping"],
            &["sh", "-c", "until nc -z db 1; do sleep 1; done"],
            &["/agnhost", "netexec", "--http-port=80"],
            &["curl", "-s", "https://kubernetes.default.svc/"],
            &["sh"],
        ] {
            assert_eq!(check(argv), Ok(()), "{argv:?}");
        }
    }

    #[test]
    fn a_script_that_no_shell_can_parse_ends_with_the_error_of_the_shell() {
        for text in ["syn (;", "if true; then", "echo )", "echo 'a", "case x in", "echo a\nfi", "eval 'if'"] {
            assert_eq!(check(&["sh", "-c", text]), Ok(()), "{text}");
            assert_eq!(check(&["bash", "-c", text]), Ok(()), "{text}");
        }
        let command = NotRunnable::Command("./server".to_owned());
        assert_eq!(check(&["sh", "-c", "./server\nif"]), Err(command), "it runs before the error");
        let deep = "(".repeat(1000);
        assert!(matches!(check(&["sh", "-c", &deep]), Err(NotRunnable::Syntax(_))));
    }

    #[test]
    fn commands_that_a_real_shell_runs_differently_are_not_runnable() {
        let command = |name: &str| NotRunnable::Command(name.to_owned());
        let stress = "its subcommand stress is not simulated";
        for (argv, why) in [
            (&["/app/server", "--port=1"][..], command("/app/server")),
            (&["sh", "-c", "echo hi; ./server"], command("./server")),
            (&["sh", "-ec", "./server"], command("./server")),
            (&["sh", "-c", "exec ./server"], command("./server")),
            (&["sh", "-c", "f() { ./server; }; f"], command("./server")),
            (&["sh", "-c", "trap './server' TERM"], command("./server")),
            (&["sh", "-c", "eval ./server"], command("./server")),
            (&["sh", "-c", "sh -c './server'"], command("./server")),
            (&["sh", "-c", ". ./env"], command(". ./env")),
            (&["sh", "/run.sh"], command("/run.sh")),
            (&["/agnhost", "stress"], NotRunnable::Arguments("/agnhost".to_owned(), stress.to_owned())),
            (&["sh", "-c", "$CMD x"], NotRunnable::Variable),
            (&["sh", "-c", "while true; do ./server; sleep 5; done"], command("./server")),
            (&["sh", "-c", "echo $(./server)"], command("./server")),
            (&["sh", "-c", "until pg_isready; do sleep 1; done"], command("pg_isready")),
            (&["sh", "-c", "eval $X"], NotRunnable::Variable),
            (&["sh", "-c", "sh -c \"$X\""], NotRunnable::Variable),
        ] {
            assert_eq!(check(argv), Err(why), "{argv:?}");
        }
        for text in ["a=(1 2)", "cat <<< x", "cat <(echo x)", "select x in a b; do echo $x; done; if"] {
            assert!(
                matches!(check(&["sh", "-c", text]), Err(NotRunnable::Syntax(_))),
                "bash may know it: {text}"
            );
        }
        assert!(matches!(check(&["bash", "-c", "cat <(echo x)"]), Err(NotRunnable::Syntax(_))));
        assert!(check(&[]).is_err());
        assert_eq!(check(&["echo", &"x".repeat(ARGUMENT_BYTES + 1)]), Err(NotRunnable::TooLong));
        assert_eq!(check(&["echo"; ARGUMENTS_BYTES / 5 + 1]), Err(NotRunnable::TooLong));
    }
}
