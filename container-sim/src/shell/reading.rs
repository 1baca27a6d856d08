//! Decides before a command starts whether it may read files, so that a caller mounts expensive volumes only for those
//! commands, and whether it may read its standard input, for which it must wait. In doubt the answer is yes.

use super::syntax::{CommandKind, Dialect, Parser, RedirectTarget, WordPart, inspect};
use super::{is_shell, program_name};
use crate::limits::ARGUMENT_BYTES;

/// Programs that read no file and no input with any arguments.
const BLIND: [&str; 26] = [
    "break", "continue", "true", "false", "echo", "sleep", "date", "uptime", "env", "printenv", "hostname",
    "pwd", "whoami", "id", "uname", "exit", "export", ":", "set", "printf", "seq", "expr", "trap", "wait",
    "shift", "return",
];

/// Whether the command `argv` may read a file of its container.
pub fn may_read_files(argv: &[String]) -> bool {
    // The kubelet replaces `$(NAME)` before the command starts, so the words are not known here.
    if argv.iter().any(|word| word.contains("$(") || word.len() > ARGUMENT_BYTES) {
        return true;
    }
    match argv {
        [program, flags, text] if is_shell(program) && flags == "-c" => script_may_read(text),
        [program, ..] => !BLIND.contains(&program_name(program)),
        [] => true,
    }
}

/// Whether the command `argv` may read its standard input.
pub fn may_read_input(argv: &[String]) -> bool {
    if argv.iter().any(|word| word.contains("$(") || word.len() > ARGUMENT_BYTES) {
        return true;
    }
    let is_deaf = |program: &str| BLIND.contains(&program_name(program));
    match argv {
        [program, flags, text] if is_shell(program) && flags == "-c" => {
            let Ok(list) = Parser::new(text, 0, Dialect::Bash, 1).all() else { return true };
            inspect(&list).commands.into_iter().any(|command| match &command.kind {
                CommandKind::Simple { words, .. } => match words.first().map(|word| word.literal()) {
                    None => false,
                    Some(first) => !first.is_some_and(|first| is_deaf(&first)),
                },
                _ => false,
            })
        }
        [program, ..] => !is_deaf(program),
        [] => true,
    }
}

fn script_may_read(text: &str) -> bool {
    let Ok(list) = Parser::new(text, 0, Dialect::Bash, 1).all() else { return true };
    let found = inspect(&list);
    found.commands.into_iter().any(|command| {
        let reads = command.redirects.iter().any(|redirect| {
            matches!(
                redirect.target,
                RedirectTarget::Read(_)
                    | RedirectTarget::Append(_)
                    | RedirectTarget::ReadWrite(_)
                    | RedirectTarget::Both(..)
            )
        });
        let CommandKind::Simple { words, .. } = &command.kind else {
            // Tests look at files.
            return reads || matches!(command.kind, CommandKind::Test(_));
        };
        // A file name pattern reads folders.
        let globs = words
            .iter()
            .flat_map(|word| &word.0)
            .any(|part| matches!(part, WordPart::Text(text) if text.contains(['*', '?', '['])));
        let is_blind = match words.first().map(|word| word.literal()) {
            // The command consists of assignments or redirections.
            None => true,
            Some(Some(first)) => BLIND.contains(&program_name(&first)),
            Some(None) => false,
        };
        reads || globs || !is_blind
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_read_its_input_if_any_part_of_it_may() {
        for (argv, reads) in [
            (&["sh", "-c", "while true; do echo polo; sleep 2; done"][..], false),
            (&["sleep", "10000"], false),
            (&["sh", "-c", "if true; then exit 3; fi"], false),
            (&["sh", "-c", "while read line; do echo $line; done"], true),
            (&["sh", "-c", "echo a; cat"], true),
            (&["sh", "-c", "f() { cat; }; true"], true),
            (&["sh", "-c", "echo $(cat)"], true),
            (&["sh", "-c", "$X"], true),
            (&["sh"], true),
            (&["cat"], true),
            (&["/app/server"], true),
            (&["echo", "$(HOME)"], true),
            (&[], true),
        ] {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(may_read_input(&argv), reads, "{argv:?}");
        }
    }

    #[test]
    fn a_command_may_read_files_if_any_part_of_it_may() {
        for (argv, reads) in [
            (&["sleep", "3600"][..], false),
            (&["/bin/echo", "hi"], false),
            (&["sh", "-c", "A=b; echo $A > /tmp/x && sleep 5; exit 3"], false),
            (&["sh", "-c", "echo hi | wc -c"], true),
            (&["sh", "-c", "echo $(cat x)"], true),
            (&["sh", "-c", "X=1; while true; do echo $X; sleep 1; done"], false),
            (&["sh", "-c", "if true; then cat x; fi"], true),
            (&["sh", "-c", "echo hi < /etc/hosts"], true),
            (&["sh", "-c", "$X"], true),
            (&["sh", "-c", "sleep 5; cat /var/run/x"], true),
            (&["cat", "/var/run/x"], true),
            (&["/app/server"], true),
            (&["echo", "$(HOME)"], true),
            (&["sh"], true),
            (&[], true),
        ] {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(may_read_files(&argv), reads, "{argv:?}");
        }
    }
}
