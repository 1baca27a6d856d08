//! A parser of flags with the rules of pflag (Kubernetes' programs) or of Go's flag package (etcd), for the tables of the drop-in
//! programs. Their rows are those of `kstore-server`. Pure: the caller reads the environment and prints.

#[cfg(test)]
mod tests;

use crate::args::{self, BOOL, Flag, FlagValues, ServerOptions, Verdict, parse_bool};
use std::fmt::Write as _;

/// Syntax of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The syntax of Kubernetes' programs: two dashes, `_` means `-`, and `-v 4` is short for `--v 4`.
    Pflag,
    /// The syntax of etcd: one dash or two.
    Go,
}

/// A command line that does not parse. The texts are those of pflag or of Go's flag package, except for the last two.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("unknown shorthand flag: '{0}' in -{1}")]
    UnknownShorthand(char, String),
    #[error("flag needs an argument: --{0}")]
    NoArgument(String),
    #[error(
        "invalid argument {value:?} for \"--{name}\" flag: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    NotBool { name: String, value: String },
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("flag provided but not defined: -{0}")]
    NotDefined(String),
    /// A word that is not a flag.
    #[error("the program takes no arguments, got {0:?}")]
    Argument(String),
    /// A flag that the program refuses.
    #[error("--{name}={value}: {reason}")]
    Refused { name: &'static str, value: String, reason: &'static str },
}

/// All flags of a drop-in program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Groups of flags, in any order.
    pub groups: &'static [&'static [Flag]],
    /// Syntax of the command line.
    pub dialect: Dialect,
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Parsed {
    table: Table,
    given: Vec<(&'static Flag, String)>,
}

impl Table {
    /// Parses the words after the program's name. Verdicts are not applied yet: see [`Parsed::check`].
    ///
    /// # Errors
    /// The first word that breaks the syntax or names a flag that is not in the table.
    pub(crate) fn parse(self, words: impl IntoIterator<Item = String>) -> Result<Parsed, FlagError> {
        let mut parsed = Parsed { table: self, given: Vec::new() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                return Err(FlagError::Argument(word));
            };
            match flag.strip_prefix('-') {
                Some("") => match words.next() {
                    Some(word) => return Err(FlagError::Argument(word)),
                    None => break,
                },
                Some(long) => parsed.read(long, &mut words)?,
                None if self.dialect == Dialect::Go => parsed.read(flag, &mut words)?,
                None => parsed.read_shorthand(flag, &mut words)?,
            }
        }
        Ok(parsed)
    }

    /// Every flag of the table.
    fn flags(self) -> impl Iterator<Item = &'static Flag> {
        self.groups.iter().copied().flatten()
    }

    fn find(&self, name: &str) -> Option<&'static Flag> {
        let same = |flag: &&Flag| match self.dialect {
            Dialect::Pflag => flag.name == name.replace('_', "-"),
            Dialect::Go => flag.name == name,
        };
        self.flags().find(same)
    }

    /// Text of `--help`: a line for each flag that is not refused, in alphabetical order.
    pub(crate) fn help(&self) -> String {
        let is_shown = |flag: &&Flag| !matches!(flag.verdict, Verdict::Refuse { .. });
        let mut shown: Vec<&Flag> = self.flags().filter(is_shown).collect();
        shown.sort_by_key(|flag| flag.name);
        let mut text = String::new();
        for Flag { name, kind, text: what, .. } in shown {
            let gap = if kind.is_empty() { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "      --{name}{gap}{kind}   {what}");
        }
        text
    }
}

impl Parsed {
    /// Parses a flag without its dashes: `NAME=VALUE`, `NAME` with the value as the next word, or a boolean `NAME`.
    fn read(&mut self, flag: &str, words: &mut impl Iterator<Item = String>) -> Result<(), FlagError> {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(FlagError::Syntax(format!("--{flag}")));
        }
        let found = self.table.find(name).ok_or_else(|| match self.table.dialect {
            Dialect::Pflag => FlagError::Unknown(name.to_owned()),
            Dialect::Go => FlagError::NotDefined(name.to_owned()),
        })?;
        let value = match value {
            Some(value) => value,
            None if found.kind == BOOL => "true".to_owned(),
            None => words.next().ok_or_else(|| FlagError::NoArgument(name.to_owned()))?,
        };
        self.push(found, value)
    }

    /// Parses a one-letter flag of Kubernetes' programs: `-v 4`, `-v=4`, `-v4` or `-h`.
    fn read_shorthand(
        &mut self,
        flag: &str,
        words: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        let mut letters = flag.chars();
        let letter = letters.next().unwrap_or_default();
        let rest = letters.as_str();
        match (letter, rest) {
            ('h', "") => self.read("help", words),
            ('v', "") => self.read("v", words),
            ('v', value) => self.read(&format!("v={}", value.trim_start_matches('=')), words),
            _ => Err(FlagError::UnknownShorthand(letter, flag.to_owned())),
        }
    }

    fn push(&mut self, flag: &'static Flag, value: String) -> Result<(), FlagError> {
        if flag.kind == BOOL && parse_bool(&value).is_none() && flag.name != "version" {
            return Err(FlagError::NotBool { name: flag.name.to_owned(), value });
        }
        self.given.push((flag, value));
        Ok(())
    }

    /// Adds the values of `ETCD_*` variables for flags that the command line does not have.
    ///
    /// # Errors
    /// A variable of a boolean flag has a value that is not boolean.
    pub(crate) fn add_environment(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), FlagError> {
        for flag in self.table.flags().filter(|flag| !matches!(flag.name, "help" | "version")) {
            let name = format!("ETCD_{}", flag.name.replace('-', "_").to_ascii_uppercase());
            if !self.has(flag.name)
                && let Some(value) = variable(&name).filter(|value| !value.is_empty())
            {
                self.push(flag, value)?;
            }
        }
        Ok(())
    }

    /// Applies the verdicts and returns the warnings about flags without effect, one line each.
    ///
    /// # Errors
    /// The first flag that the program refuses.
    pub(crate) fn check(&self) -> Result<Vec<String>, FlagError> {
        let mut warnings = Vec::new();
        for (flag, value) in &self.given {
            match flag.verdict {
                Verdict::Honour => {}
                Verdict::Accept { default } if *value == default => {}
                Verdict::Accept { .. } => {
                    warnings.push(format!("--{}={value} is accepted and has no effect", flag.name));
                }
                Verdict::Refuse { unless, .. } if unless.contains(&value.as_str()) => {}
                Verdict::Refuse { reason, .. } => {
                    return Err(FlagError::Refused { name: flag.name, value: value.clone(), reason });
                }
            }
        }
        Ok(warnings)
    }

    /// The options that the flags set which `kstore-server` has, too; the values of all others by name.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub(crate) fn options(&self) -> Result<ServerOptions, args::FlagError> {
        let mut options = ServerOptions::default();
        for (flag, value) in &self.given {
            let set = flag.apply(&mut options, value.as_ref());
            set.map_err(|reason| args::FlagError::new(flag.name, value, reason))?;
        }
        Ok(options)
    }

    /// Whether the flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }

    /// The last value given for a flag, which is the effective one unless the flag may be repeated.
    pub(crate) fn last(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// Every value given for a repeatable flag, in that order.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        debug_assert!(self.table.find(name).is_some(), "--{name} is not in the table");
        self.given.iter().filter(move |(flag, _)| flag.name == name).map(|(_, value)| value.as_str())
    }

    /// The elements of a list flag: comma-separated values, over all times that the flag was given.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let elements = self.values(name).flat_map(|value| value.split(','));
        elements.map(str::trim).filter(|element| !element.is_empty()).map(str::to_owned).collect()
    }

    /// The value of a boolean flag.
    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        self.last(name).and_then(parse_bool)
    }
}

impl FlagValues for Parsed {
    fn values(&self, name: &str) -> Vec<&str> {
        Parsed::values(self, name).collect()
    }
}
