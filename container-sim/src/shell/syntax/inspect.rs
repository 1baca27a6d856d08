//! All simple commands and words of a script, for judging it before it runs.

use super::{
    AssignedValue, Command, CommandKind, Expansion, List, Operation, Parameter, Pipeline, RedirectTarget,
    Word, WordPart,
};
use std::sync::Arc;

/// What a script consists of.
#[derive(Default)]
pub(in crate::shell) struct Inspected<'a> {
    /// All commands, also those in loops, functions and substitutions.
    pub(in crate::shell) commands: Vec<&'a Command>,
    /// The names of the functions that it defines.
    pub(in crate::shell) functions: Vec<&'a str>,
}

/// A place that is not looked at yet.
enum Pending<'a> {
    List(&'a List),
    Command(&'a Command),
    Word(&'a Word),
}

/// Finds all commands of a script.
pub(in crate::shell) fn inspect(list: &List) -> Inspected<'_> {
    let (mut found, mut pending) = (Inspected::default(), vec![Pending::List(list)]);
    while let Some(next) = pending.pop() {
        match next {
            Pending::List(list) => {
                let pipelines = list.iter().flat_map(|entry| {
                    std::iter::once(&entry.first).chain(entry.rest.iter().map(|(_, pipeline)| pipeline))
                });
                let commands = pipelines.flat_map(|pipeline: &Pipeline| &pipeline.commands);
                pending.extend(commands.map(|command| Pending::Command(command)));
            }
            Pending::Command(command) => {
                found.commands.push(command);
                if let CommandKind::Function(name, _) = &command.kind {
                    found.functions.push(name);
                }
                parts_of(command, &mut pending);
            }
            Pending::Word(word) => {
                for part in &word.0 {
                    match part {
                        WordPart::Expanded(Expansion::Output(list), _) => pending.push(Pending::List(list)),
                        WordPart::Expanded(Expansion::Arithmetic(word), _) => {
                            pending.push(Pending::Word(word));
                        }
                        WordPart::Expanded(Expansion::Parameter(parameter), _) => {
                            words_of(parameter, &mut pending);
                        }
                        WordPart::Text(_) | WordPart::Quoted(_) => {}
                    }
                }
            }
        }
    }
    found
}

fn words_of<'a>(parameter: &'a Parameter, pending: &mut Vec<Pending<'a>>) {
    pending.extend(parameter.index.as_ref().map(Pending::Word));
    let words: [Option<&Word>; 2] = match &parameter.operation {
        Operation::None | Operation::Length | Operation::Case(..) | Operation::Keys => [None, None],
        Operation::Default(word, _)
        | Operation::Assign(word, _)
        | Operation::Require(word, _)
        | Operation::Alternative(word, _)
        | Operation::StripPrefix(word, _)
        | Operation::StripSuffix(word, _) => [Some(word), None],
        Operation::Substring(offset, length) => [Some(offset), length.as_ref()],
        Operation::Replace(_, pattern, text) => [Some(pattern), Some(text)],
    };
    pending.extend(words.into_iter().flatten().map(Pending::Word));
}

fn parts_of<'a>(command: &'a Command, pending: &mut Vec<Pending<'a>>) {
    let list = |list: &'a Arc<List>| Pending::List(list);
    for redirect in &command.redirects {
        match &redirect.target {
            RedirectTarget::Read(word)
            | RedirectTarget::Write(word, _)
            | RedirectTarget::Append(word)
            | RedirectTarget::ReadWrite(word)
            | RedirectTarget::Duplicate(word)
            | RedirectTarget::Both(word, _)
            | RedirectTarget::HereString(word) => pending.push(Pending::Word(word)),
            RedirectTarget::HereDocument(text) => pending.extend(text.get().map(Pending::Word)),
        }
    }
    match &command.kind {
        CommandKind::Simple { assignments, words } => {
            for assignment in assignments {
                pending.extend(assignment.index.as_ref().map(Pending::Word));
                match &assignment.value {
                    AssignedValue::Text(word) => pending.push(Pending::Word(word)),
                    AssignedValue::List(elements) => pending.extend(
                        elements
                            .iter()
                            .flat_map(|(index, word)| index.iter().chain([word]))
                            .map(Pending::Word),
                    ),
                }
            }
            pending.extend(words.iter().map(Pending::Word));
        }
        CommandKind::Subshell(body) | CommandKind::Group(body) => pending.push(list(body)),
        CommandKind::If(arms, otherwise) => {
            pending.extend(arms.iter().flat_map(|(condition, body)| [list(condition), list(body)]));
            pending.push(list(otherwise));
        }
        CommandKind::While(_, condition, body) => pending.extend([list(condition), list(body)]),
        CommandKind::For(_, words, body) => {
            pending.extend(words.iter().flatten().map(Pending::Word));
            pending.push(list(body));
        }
        CommandKind::ArithmeticFor(words, body) => {
            pending.extend(words.iter().map(Pending::Word));
            pending.push(list(body));
        }
        CommandKind::Case(word, arms) => {
            pending.push(Pending::Word(word));
            for arm in arms {
                pending.extend(arm.patterns.iter().map(Pending::Word));
                pending.push(list(&arm.body));
            }
        }
        CommandKind::Function(_, body) => pending.push(Pending::Command(body)),
        CommandKind::Arithmetic(word) => pending.push(Pending::Word(word)),
        CommandKind::Test(words) => pending.extend(words.iter().map(|(word, _)| Pending::Word(word))),
    }
}
