//! Decides before a command starts whether the simulated shell can run it to its end. In doubt the answer is no: a command
//! that would run differently in a real shell is refused.

use super::compound::single_commands;
use super::parse::{self, Word, is_assignment};
use super::{Environment, builtin};
use crate::limits::{ARGUMENT_BYTES, ARGUMENTS_BYTES};
use crate::script::ScriptedAnswer;
use std::collections::BTreeMap;

/// Why the simulated shell does not run a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// The shell has no such command.
    #[error("{0:?} is not one of the simulated shell's commands")]
    Command(String),
    /// The command waits for something that never comes.
    #[error("{0:?} does not end by itself")]
    Endless(String),
    /// A variable names the command.
    #[error("the simulated shell does not know before which command a variable names")]
    Variable,
    /// A file name pattern, which the simulated shell does not expand.
    #[error("the simulated shell does not know file name patterns ({0:?})")]
    Pattern(String),
    /// The command is longer than a real kernel takes.
    #[error("Argument list too long")]
    TooLong,
    /// A syntax error.
    #[error("{0}")]
    Syntax(String),
}

/// Scripted answers by command line: the words of the command joined by blanks.
type Answers = BTreeMap<String, ScriptedAnswer>;

/// Checks that the simulated shell runs `argv` as a real shell would, or that `answers` has its command line.
///
/// # Errors
/// The reason why it does not.
pub fn check_runnable(argv: &[String], answers: &Answers) -> Result<(), NotRunnable> {
    let longest = argv.iter().map(String::len).max().unwrap_or(0);
    if longest > ARGUMENT_BYTES || argv.iter().map(|word| word.len() + 1).sum::<usize>() > ARGUMENTS_BYTES {
        return Err(NotRunnable::TooLong);
    }
    if answers.contains_key(&argv.join(" ")) {
        return Ok(());
    }
    match argv {
        [] => Err(NotRunnable::Command(String::new())),
        [program, flags, text, ..] if builtin::is_shell(program) && is_command_flag(flags) => {
            script(text, answers)
        }
        // A shell that reads commands from its input, which is empty.
        [program, rest @ ..]
            if builtin::is_shell(program) && rest.iter().all(|word| word.starts_with('-')) =>
        {
            Ok(())
        }
        words => program(words),
    }
}

/// Whether the flags are `-c`, alone or with flags that change nothing. `-e` changes something: it ends a script at its
/// first error, which the simulated shell does not do.
fn is_command_flag(flags: &str) -> bool {
    flags.starts_with('-') && flags.ends_with('c') && !flags.contains('e')
}

fn script(text: &str, answers: &Answers) -> Result<(), NotRunnable> {
    let list = parse::parse(text).map_err(NotRunnable::Syntax)?;
    let (commands, values) = single_commands(&list);
    let mut words = commands.iter().flat_map(|command| &command.words).chain(values);
    if let Some(pattern) = words.find_map(Word::pattern) {
        return Err(NotRunnable::Pattern(pattern.to_owned()));
    }
    for command in commands {
        let Some(first) = command.words.first() else { continue };
        if first.assigns() && command.words.len() == 1 {
            continue;
        }
        let first = first.literal().ok_or(NotRunnable::Variable)?;
        let words: Vec<String> =
            command.words.iter().map(|word| word.literal().unwrap_or_else(|| "$".to_owned())).collect();
        match (first.as_str(), words.get(1).map(String::as_str)) {
            ("exit" | "cd" | "export" | ":" | "break" | "continue", _) | ("command", Some("-v")) => {}
            (word, None) if is_assignment(word) => {}
            ("sh" | "bash" | "ash", Some(_)) if command.words.iter().any(|word| word.literal().is_none()) => {
                return Err(NotRunnable::Variable);
            }
            _ => check_runnable(&words, answers)?,
        }
    }
    Ok(())
}

fn program(words: &[String]) -> Result<(), NotRunnable> {
    let first = words[0].as_str();
    let endless = match builtin::name(first) {
        "tail" => words[1..].iter().any(|word| word.starts_with('-') && word.contains(['f', 'F'])),
        "sleep" => words[1..].iter().any(|word| word.starts_with("inf")),
        _ => false,
    };
    if endless {
        return Err(NotRunnable::Endless(words.join(" ")));
    }
    let known = builtin::run(&Environment::default(), &[first.to_owned()], b"").is_some();
    if known { Ok(()) } else { Err(NotRunnable::Command(first.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argv: &[&str]) -> Result<(), NotRunnable> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        check_runnable(&argv, &BTreeMap::from([("redis-cli ping".to_owned(), ScriptedAnswer::default())]))
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
            &["/bin/echo", "*"],
            &["redis-cli", "ping"],
            &["sh", "-c", "redis-cli ping"],
            &["sh"],
        ] {
            assert_eq!(check(argv), Ok(()), "{argv:?}");
        }
    }

    #[test]
    fn commands_that_a_real_shell_runs_differently_are_not_runnable() {
        let command = |name: &str| NotRunnable::Command(name.to_owned());
        for (argv, why) in [
            (&["/app/server", "--port=1"][..], command("/app/server")),
            (&["sh", "-c", "echo hi; ./server"], command("./server")),
            (&["sh", "-c", "set -e; false; echo hi"], command("set")),
            (&["sh", "-ec", "false"], command("sh")),
            (&["sh", "-c", "exec sleep 5"], command("exec")),
            (&["tail", "-f", "/dev/null"], NotRunnable::Endless("tail -f /dev/null".to_owned())),
            (&["sh", "-c", "echo hi; sleep infinity"], NotRunnable::Endless("sleep infinity".to_owned())),
            (&["sh", "-c", "$CMD x"], NotRunnable::Variable),
            (&["sh", "-c", "while true; do ./server; sleep 5; done"], command("./server")),
            (&["sh", "-c", "echo $(./server)"], command("./server")),
            (&["sh", "-c", "until nc -z db 1; do sleep 1; done"], command("nc")),
            (&["sh", "-c", "for f in /data/*; do echo $f; done"], NotRunnable::Pattern("/data/*".to_owned())),
            (&["sh", "-c", "rm /data/*"], NotRunnable::Pattern("/data/*".to_owned())),
        ] {
            assert_eq!(check(argv), Err(why), "{argv:?}");
        }
        for text in
            ["server &", "case $1 in a) echo;; esac", "while read x; do echo; done < /x", "echo `date`"]
        {
            assert!(matches!(check(&["sh", "-c", text]), Err(NotRunnable::Syntax(_))), "{text}");
        }
        assert!(check(&[]).is_err());
        assert_eq!(check(&["echo", &"x".repeat(ARGUMENT_BYTES + 1)]), Err(NotRunnable::TooLong));
        assert_eq!(check(&["echo"; ARGUMENTS_BYTES / 5 + 1]), Err(NotRunnable::TooLong));
    }
}
