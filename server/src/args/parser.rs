//! clap's command line, made of rows: its arguments, and the options that a parsed one sets.

use super::flag::{BOOL, Flag, Target};
use super::table::SERVER;
use super::values::parse_bool;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use std::ffi::OsStr;

/// Adds the flags to a command.
pub(super) fn add<O: Default>(command: Command, flags: &'static [Flag<O>]) -> Command {
    command.args(flags.iter().map(arg))
}

/// Adds flags of the server to the server or to `run`, with their headings. `-h` shows those of every day.
pub(super) fn add_server(command: Command, is_in: fn(&Flag) -> bool) -> Command {
    SERVER.iter().fold(command, |command, group| {
        let flags = group.flags.iter().filter(|flag| is_in(flag));
        command.args(flags.map(|flag| arg(flag).help_heading(group.heading).hide_short_help(!flag.is_daily)))
    })
}

/// The options that a parsed command line sets.
pub(super) fn read<O: Default>(flags: &'static [Flag<O>], matches: &ArgMatches) -> Result<O, clap::Error> {
    let mut options = O::default();
    read_into(&mut options, flags, matches)?;
    Ok(options)
}

/// Sets the values of a parsed command line in the options. The command must have all of the flags.
pub(super) fn read_into<O: 'static>(
    options: &mut O,
    flags: impl IntoIterator<Item = &'static Flag<O>>,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    for flag in flags {
        for value in matches.get_raw(flag.name).into_iter().flatten() {
            // clap's parser has accepted the value already.
            flag.apply(options, value).map_err(|reason| {
                clap::Error::raw(ErrorKind::ValueValidation, format!("--{}: {reason}\n", flag.name))
            })?;
        }
    }
    Ok(())
}

/// The argument of a row.
pub(super) fn arg<O: Default>(flag: &'static Flag<O>) -> Arg {
    let arg = Arg::new(flag.name).help(flag.text);
    let arg = if flag.is_positional { arg } else { arg.long(flag.name) };
    let arg = match flag.target {
        Target::Switch(_) => arg.action(ArgAction::SetTrue),
        Target::Bool(_) => boolean(arg),
        Target::Group(_) | Target::Server(..) if flag.kind == BOOL => boolean(arg).action(ArgAction::Append),
        Target::Group(_) => arg.value_name(flag.kind).value_hint(hint(flag.kind)).action(ArgAction::Append),
        Target::Server(..) | Target::Value(_) => arg.value_name(flag.kind).value_parser(move |text: &str| {
            flag.apply(&mut O::default(), text.as_ref()).map(|()| text.to_owned())
        }),
        Target::Choice(words, _) => {
            arg.value_name(flag.kind).value_parser(PossibleValuesParser::new(words()))
        }
        Target::Path(_) => arg.value_name(flag.kind).value_parser(PathBufValueParser::new()),
        Target::Word(_) => arg.value_name(flag.kind).value_parser(ValueParser::os_string()),
    };
    let arg = match flag.default {
        Some(default) => arg.default_value(default),
        None => arg,
    };
    (flag.shape)(arg)
}

/// A boolean, which is `true` without a value; a value follows an equals sign, as with pflag.
fn boolean(arg: Arg) -> Arg {
    let arg = arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true");
    arg.value_parser(BoolParser)
}

/// What a shell completes: files, if the value is the path of one.
fn hint(kind: &str) -> ValueHint {
    if kind == "FILE" { ValueHint::AnyPath } else { ValueHint::Unknown }
}

/// Parses booleans as pflag does. `--help` and errors show only `true` and `false`.
#[derive(Clone)]
struct BoolParser;

const BOOLS: [&str; 2] = ["true", "false"];

impl TypedValueParser for BoolParser {
    type Value = bool;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<bool, clap::Error> {
        match value.to_str().and_then(parse_bool) {
            Some(value) => Ok(value),
            None => {
                let refused = PossibleValuesParser::new(BOOLS).parse_ref(command, arg, value);
                refused.map(|word| word == BOOLS[0])
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(BOOLS.into_iter().map(PossibleValue::new)))
    }
}
