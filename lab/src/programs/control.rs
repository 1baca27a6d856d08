//! [`ProgramControl`]: what plans do with programs. `Programs` implements it for real processes; tests of plans have their own.

use futures::future::BoxFuture;
use kstore_api::status::Status;
use std::time::Duration;

/// A signal that calls and plans may send to a program's process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramSignal {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
    /// SIGSTOP: the program pauses.
    Stop,
    /// SIGCONT: it goes on.
    Cont,
    /// SIGINT.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl ProgramSignal {
    /// All signals, by their names without `SIG`.
    pub const ALL: [(&'static str, Self); 9] = [
        ("TERM", Self::Term),
        ("KILL", Self::Kill),
        ("STOP", Self::Stop),
        ("CONT", Self::Cont),
        ("INT", Self::Int),
        ("HUP", Self::Hup),
        ("QUIT", Self::Quit),
        ("USR1", Self::Usr1),
        ("USR2", Self::Usr2),
    ];

    /// The signal with this name, with or without `SIG`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("SIG").unwrap_or(name);
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
    }
}

/// Control over the programs of a cluster, by their names. A program keeps its name and its client over restarts; each start is a further
/// incarnation. All methods refuse unknown names with 404.
pub trait ProgramControl: Send + Sync {
    /// Sends a signal to the program's process group. Without effect on a program that has ended.
    ///
    /// # Errors
    /// 404: there is no such program.
    fn signal(&self, program: &str, signal: ProgramSignal) -> Result<(), Status>;

    /// Kills the program's process group, and returns when the process is gone. Without effect on a program that has ended.
    ///
    /// # Errors
    /// 404: there is no such program.
    fn kill<'p>(&'p self, program: &'p str) -> BoxFuture<'p, Result<(), Status>>;

    /// Sends SIGTERM, kills the process group if it has not ended after `grace` of real time, and returns when the process is gone.
    ///
    /// # Errors
    /// 404: there is no such program.
    fn stop<'p>(&'p self, program: &'p str, grace: Duration) -> BoxFuture<'p, Result<(), Status>>;

    /// Starts a program that has ended again, with the same command. Returns the number of starts before this one.
    ///
    /// # Errors
    /// 404: there is no such program. 409: it runs. 422: it cannot be started.
    fn start<'p>(&'p self, program: &'p str) -> BoxFuture<'p, Result<u32, Status>>;

    /// Starts another program with the command of this one, as a second replica would: with a name, a client and a kubeconfig of its own,
    /// of the same user.
    ///
    /// # Errors
    /// 404: there is no such program. 409: the name is taken. 422: it cannot be started. 429: too many programs.
    fn start_second<'p>(&'p self, program: &'p str, name: &'p str) -> BoxFuture<'p, Result<(), Status>>;

    /// Whether the program's process runs; `None`: there is no such program.
    fn is_running(&self, program: &str) -> Option<bool>;

    /// Whether the Leases that the program holds are released when a plan ends it: see [`super::ProgramSpec::releases_leases`].
    fn releases_leases(&self, _program: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_with_and_without_their_prefix() {
        for (name, signal) in ProgramSignal::ALL {
            assert_eq!(ProgramSignal::named(name), Some(signal));
            assert_eq!(ProgramSignal::named(&format!("SIG{name}")), Some(signal));
        }
        for wrong in ["", "SIG", "term", "SIGSIGTERM", "15", "SEGV"] {
            assert_eq!(ProgramSignal::named(wrong), None, "{wrong}");
        }
    }
}
