//! [`Flag`]: the row of a flag, for `kstore-server` and its commands and for the programs that it replaces. A row has everything about its
//! flag: name, type, help text, default, the processes that have it, and where its value goes. `parser` makes clap's command line of
//! the rows, `crate::flags` those of Kubernetes' programs and etcd.

use super::ServerOptions;
use super::scope::Part;
use super::values::parse_bool;
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction};
use kstore_apiserver::ServerConfig;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One flag or positional argument of a program, which sets a value of the options `O`.
pub(crate) struct Flag<O: 'static = ServerOptions> {
    /// Name without dashes.
    pub name: &'static str,
    /// Type of the value, as `--help` shows it; [`BOOL`] for booleans.
    pub kind: &'static str,
    /// Description in `--help`.
    pub text: &'static str,
    /// Where the value goes.
    pub target: Target<O>,
    /// The value if the flag is not given, which `--help` shows.
    pub default: Option<&'static str>,
    /// The part of a process that the flag configures: the API server, unless the row says otherwise.
    pub part: Part,
    /// Whether `kstore-server run` does not have the flag of the server.
    pub is_server_only: bool,
    /// Whether `-h` shows the flag of the server or of `run`.
    pub is_daily: bool,
    /// Whether this is a positional argument.
    pub is_positional: bool,
    /// Rarer properties of the flag, in clap's words.
    pub shape: fn(Arg) -> Arg,
    /// How a drop-in program treats the flag.
    pub verdict: Verdict,
}

impl<O> fmt::Debug for Flag<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)
    }
}

/// The type of boolean flags, which mean `true` without a value.
pub(crate) const BOOL: &str = "";

/// Where the value of a flag goes, with its parser.
pub(crate) enum Target<O: 'static> {
    /// A flag without a value.
    Switch(fn(&mut O)),
    /// A boolean; the flag alone means `true`.
    Bool(fn(&mut O, bool)),
    /// A path, which need not be UTF-8.
    Path(fn(&mut O, PathBuf)),
    /// A word of another program's command line, which need not be UTF-8.
    Word(fn(&mut O, OsString)),
    /// A text, or an element of a list, with its parser.
    Value(fn(&mut O, &str) -> Result<(), String>),
    /// One of a few words.
    Choice(fn() -> Vec<PossibleValue>, fn(&mut O, &str) -> Result<(), String>),
    /// Kept by name: flags that depend on each other are read together, by the reader of their group.
    Group(fn(&mut O, &'static str, &str)),
    /// The configuration of the API server, which is made after the options.
    Server(fn(&mut O, ServerValue), SetServer),
}

/// Parses a value and sets it in the API server's configuration.
pub(crate) type SetServer = fn(&mut ServerConfig, &str) -> Result<(), String>;

/// How a drop-in program treats a flag that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The flag takes effect.
    Honour,
    /// The program ignores the flag, which only tunes something, and warns unless the value is `default`.
    Accept {
        /// The value that gives no warning; empty: every value gives one.
        default: &'static str,
    },
    /// The program refuses to start.
    Refuse {
        /// Values that are accepted because they agree with what the program does.
        unless: &'static [&'static str],
        /// Why the flag is refused and what to do instead; printed in the error.
        reason: &'static str,
    },
}

impl<O> Flag<O> {
    const fn new(name: &'static str, kind: &'static str, target: Target<O>, text: &'static str) -> Self {
        Self {
            name,
            kind,
            text,
            target,
            default: None,
            part: Part::Apiserver,
            is_server_only: false,
            is_daily: false,
            is_positional: false,
            shape: |arg| arg,
            verdict: Verdict::Honour,
        }
    }

    /// A flag without a value.
    pub(crate) const fn switch(name: &'static str, set: fn(&mut O), text: &'static str) -> Self {
        Self::new(name, BOOL, Target::Switch(set), text)
    }

    /// A boolean flag.
    pub(crate) const fn boolean(name: &'static str, set: fn(&mut O, bool), text: &'static str) -> Self {
        Self::new(name, BOOL, Target::Bool(set), text)
    }

    /// A flag whose value is a path.
    pub(crate) const fn path(
        name: &'static str,
        kind: &'static str,
        set: fn(&mut O, PathBuf),
        text: &'static str,
    ) -> Self {
        Self::new(name, kind, Target::Path(set), text)
    }

    /// An argument that is a word of another program's command line.
    pub(crate) const fn word(
        name: &'static str,
        kind: &'static str,
        set: fn(&mut O, OsString),
        text: &'static str,
    ) -> Self {
        Self::new(name, kind, Target::Word(set), text).positional()
    }

    /// A flag with a text, a number, or another value that `set` parses.
    pub(crate) const fn value(
        name: &'static str,
        kind: &'static str,
        set: fn(&mut O, &str) -> Result<(), String>,
        text: &'static str,
    ) -> Self {
        Self::new(name, kind, Target::Value(set), text)
    }

    /// A flag with one of a few words: those of [`words`].
    pub(crate) const fn choice(
        (name, kind): (&'static str, &'static str),
        words: fn() -> Vec<PossibleValue>,
        set: fn(&mut O, &str) -> Result<(), String>,
        text: &'static str,
    ) -> Self {
        Self::new(name, kind, Target::Choice(words, set), text)
    }

    /// Gives the flag a default value, which `--help` shows.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Says which part of a process the flag configures, if that is not the API server.
    pub(crate) const fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Keeps the flag of the server from `run`.
    pub(crate) const fn server_only(self) -> Self {
        Self { is_server_only: true, ..self }
    }

    /// Shows the flag in `-h`.
    pub(crate) const fn daily(self) -> Self {
        Self { is_daily: true, ..self }
    }

    /// Makes this a positional argument.
    pub(crate) const fn positional(self) -> Self {
        Self { is_positional: true, ..self }
    }

    /// Gives the flag rarer properties, in clap's words.
    pub(crate) const fn shaped(self, shape: fn(Arg) -> Arg) -> Self {
        Self { shape, ..self }
    }
}

impl Flag {
    /// A flag that is read together with others of its group.
    pub(crate) const fn group(name: &'static str, kind: &'static str, text: &'static str) -> Self {
        Self::new(name, kind, Target::Group(ServerOptions::keep), text)
    }

    /// A flag whose value goes into the API server's configuration. The setter of a boolean flag sees `true` or `false`.
    pub(crate) const fn server(
        name: &'static str,
        kind: &'static str,
        set: SetServer,
        text: &'static str,
    ) -> Self {
        Self::new(name, kind, Target::Server(ServerOptions::keep_for_server, set), text)
    }
}

/// A flag of a drop-in program that takes effect.
pub(crate) const fn honour(name: &'static str, kind: &'static str, text: &'static str) -> Flag {
    Flag::group(name, kind, text)
}

/// A flag of a drop-in program that is accepted and has no effect.
pub(crate) const fn accept(name: &'static str, kind: &'static str, default: &'static str) -> Flag {
    let verdict = Verdict::Accept { default };
    Flag { verdict, ..Flag::group(name, kind, "accepted, without effect") }
}

/// A flag that makes a drop-in program refuse to start, with the reason.
pub(crate) const fn refuse(name: &'static str, kind: &'static str, reason: &'static str) -> Flag {
    refuse_unless(name, kind, &[], reason)
}

/// A flag that makes a drop-in program refuse to start, unless it has one of the values in `unless`.
pub(crate) const fn refuse_unless(
    name: &'static str,
    kind: &'static str,
    unless: &'static [&'static str],
    reason: &'static str,
) -> Flag {
    Flag { verdict: Verdict::Refuse { unless, reason }, ..Flag::group(name, kind, "") }
}

impl<O> Flag<O> {
    /// Parses a value of the command line and sets it in the options.
    ///
    /// # Errors
    /// Why the value cannot be used.
    pub(crate) fn apply(&self, options: &mut O, value: &OsStr) -> Result<(), String> {
        let text = || value.to_str().ok_or_else(|| "expected UTF-8 text".to_owned());
        match self.target {
            Target::Switch(set) if text()? == "true" => set(options),
            Target::Switch(_) => {}
            Target::Bool(set) => set(options, parse_bool(text()?).ok_or("expected true or false")?),
            Target::Path(set) => set(options, value.into()),
            Target::Word(set) => set(options, value.to_owned()),
            Target::Value(set) | Target::Choice(_, set) => set(options, text()?)?,
            Target::Group(set) => set(options, self.name, text()?),
            Target::Server(keep, set) if self.kind == BOOL => {
                let is_on = parse_bool(text()?).ok_or("expected true or false")?;
                keep(options, ServerValue::new(self.name, set, if is_on { "true" } else { "false" })?);
            }
            Target::Server(keep, set) => keep(options, ServerValue::new(self.name, set, text()?)?),
        }
        Ok(())
    }
}

/// The value of a flag for the API server's configuration. Its parser accepts it.
#[derive(Clone)]
pub struct ServerValue {
    name: &'static str,
    text: String,
    set: SetServer,
}

impl ServerValue {
    fn new(name: &'static str, set: SetServer, text: &str) -> Result<Self, String> {
        set(&mut ServerConfig::default(), text)?;
        Ok(Self { name, text: text.to_owned(), set })
    }

    /// Sets the value.
    pub(crate) fn apply(&self, config: &mut ServerConfig) -> Result<(), String> {
        (self.set)(config, &self.text)
    }
}

/// Equal values of the same flag.
impl PartialEq for ServerValue {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.text) == (other.name, &other.text)
    }
}

impl Eq for ServerValue {}

impl fmt::Debug for ServerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}={}", self.name, self.text)
    }
}

/// Parses a value by its type.
pub(super) fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Sets a parsed value.
pub(super) fn put<T>(target: &mut T, value: Result<T, String>) -> Result<(), String> {
    *target = value?;
    Ok(())
}

/// Appends a parsed value to a list.
pub(super) fn add<T>(list: &mut Vec<T>, value: Result<T, String>) -> Result<(), String> {
    list.push(value?);
    Ok(())
}

/// An argument or a flag that must be given.
pub(super) fn required(arg: Arg) -> Arg {
    arg.required(true)
}

/// A flag that may be given several times; each value is added.
pub(super) fn repeated(arg: Arg) -> Arg {
    arg.action(ArgAction::Append)
}

/// A flag whose value is a comma-separated list; it may be given several times.
pub(super) fn list(arg: Arg) -> Arg {
    arg.action(ArgAction::Append).value_delimiter(',')
}

/// A value that is one of a few words.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// Each word, its value, and its description in `--help`.
    const WORDS: &'static [(&'static str, Self, &'static str)];

    /// The word of this value.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value, _)| *value == self).map_or("", |(word, _, _)| word)
    }
}

/// The words of a choice, as clap shows them.
pub(super) fn words<C: Choice>() -> Vec<PossibleValue> {
    C::WORDS.iter().map(|(word, _, text)| PossibleValue::new(*word).help(*text)).collect()
}

/// The value of a word.
pub(super) fn chosen<C: Choice>(word: &str) -> Result<C, String> {
    let value = C::WORDS.iter().find(|(known, _, _)| *known == word).map(|(_, value, _)| *value);
    value.ok_or_else(|| {
        let known: Vec<_> = C::WORDS.iter().map(|(word, _, _)| *word).collect();
        format!("expected one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAVES_ENDPOINTS: Flag = Flag::server(
        "leaves-endpoints",
        BOOL,
        |config, text| put(&mut config.network.leaves_endpoints, parsed(text)),
        "Leave the endpoints of the Service default/kubernetes as they are",
    );

    #[test]
    fn booleans_of_the_api_servers_configuration_are_those_of_kubernetes() {
        for (word, expected) in [("T", Ok(true)), ("1", Ok(true)), ("f", Ok(false)), ("yes", Err(()))] {
            let mut options = ServerOptions::default();
            let applied = LEAVES_ENDPOINTS.apply(&mut options, word.as_ref());
            let mut config = ServerConfig::default();
            let values = options.access().unwrap().server;
            values.iter().for_each(|value| value.apply(&mut config).unwrap());
            assert_eq!(applied.map(|()| config.network.leaves_endpoints).map_err(drop), expected, "{word}");
        }
    }
}
