//! Commands that change the shell itself. A builtin returns its exit code; those that run something put frames on the process's stack.

mod control;
mod declare;
mod jobs;
mod names;
mod options;
mod output;
mod read;
mod variables;

use super::machine::{Kernel, Process};
use super::syntax::Dialect;
pub(super) use options::{set_letter, set_named};

/// A builtin: the process, what all share, and the words.
pub(super) type Builtin = fn(&mut Process, &mut Kernel, &[String]) -> u8;

/// Builtins of both dialects.
const BOTH: [(&str, Builtin); 39] = [
    (":", control::nothing),
    ("true", control::nothing),
    ("false", control::fail),
    ("break", control::leave),
    ("continue", control::leave),
    ("return", control::give_back),
    ("exit", control::exit),
    ("eval", control::eval),
    ("exec", control::exec),
    (".", control::source),
    ("source", control::source),
    ("command", names::command),
    ("builtin", names::command),
    ("type", names::kind),
    ("hash", control::nothing),
    ("export", variables::export),
    ("readonly", variables::readonly),
    ("unset", variables::unset),
    ("local", variables::local),
    ("shift", variables::shift),
    ("let", variables::evaluate),
    ("getopts", variables::options),
    ("set", options::set),
    ("umask", options::umask),
    ("ulimit", options::ulimit),
    ("times", jobs::times),
    ("trap", jobs::trap),
    ("wait", jobs::wait),
    ("jobs", jobs::list),
    ("kill", jobs::kill),
    ("bg", jobs::no_control),
    ("fg", jobs::no_control),
    ("read", read::read),
    ("cd", output::change_directory),
    ("pwd", output::directory),
    ("echo", output::echo),
    ("printf", output::printf),
    ("test", output::test),
    ("[", output::test),
];

/// Builtins of bash alone.
const BASH: [(&str, Builtin); 5] = [
    ("declare", declare::declare),
    ("typeset", declare::declare),
    ("shopt", options::shopt),
    ("mapfile", read::lines),
    ("readarray", read::lines),
];

/// The builtin of this name.
pub(super) fn find(name: &str, dialect: Dialect) -> Option<Builtin> {
    let bash = BASH.iter().filter(|_| dialect == Dialect::Bash);
    BOTH.iter().chain(bash).find(|(own, _)| *own == name).map(|(_, run)| *run)
}

impl Process {
    /// Prints an error of a builtin and returns the exit code.
    fn refuse(&mut self, kernel: &mut Kernel, argv: &[String], why: &str, code: u8) -> u8 {
        let line = if self.state.line > 0 || self.is_bash() { "" } else { "line 0: " };
        self.complain(kernel, &format!("{}: {line}{why}", argv[0]));
        code
    }

    fn is_bash(&self) -> bool {
        self.state.env.dialect == Dialect::Bash
    }
}
