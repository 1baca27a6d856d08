//! Signals: their names, traps and default actions.

use super::kernel::Kernel;
use super::process::{Frame, Process};

/// The signals by number.
const NAMES: [&str; 32] = [
    "EXIT", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "POLL", "PWR", "SYS",
];

/// SIGKILL.
pub(in crate::shell) const KILL: u8 = 9;
/// SIGPIPE.
pub(in crate::shell) const PIPE: u8 = 13;
/// SIGTERM.
pub(in crate::shell) const TERM: u8 = 15;

/// The number of a signal, given as a number or as a name with or without `SIG`.
pub(in crate::shell) fn number(text: &str) -> Option<u8> {
    if let Ok(number) = text.parse::<u8>() {
        return (number < 65).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == name).and_then(|at| u8::try_from(at).ok())
}

/// The name of a signal without `SIG`.
pub(in crate::shell) fn name(number: u8) -> String {
    NAMES.get(usize::from(number)).map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// All names with their numbers, as `kill -l` lists them.
pub(in crate::shell) fn list() -> String {
    (1..NAMES.len()).map(|at| format!("{at:>2}) {}\n", NAMES[at])).collect()
}

/// What a shell prints about a process that a signal has ended.
fn description(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "Hangup",
        3 => "Quit",
        6 => "Aborted",
        KILL => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        14 => "Alarm clock",
        TERM => "Terminated",
        _ => return None,
    })
}

impl Process {
    /// Prints how a process ended that the shell has waited for.
    pub(super) fn report_death(&mut self, kernel: &mut Kernel, pid: u32) {
        if let Some(text) = kernel.deaths.remove(&pid).and_then(description) {
            self.print(kernel, 2, format!("{text}\n").as_bytes());
        }
    }

    /// Handles the signals that have arrived. Returns whether there was one.
    pub(super) fn take_signals(&mut self, kernel: &mut Kernel) -> bool {
        if self.signals.is_empty() {
            return false;
        }
        let mut kept = Vec::new();
        for signal in std::mem::take(&mut self.signals) {
            if self.handle(signal) {
                continue;
            }
            match self.state.traps.get(&signal).cloned() {
                _ if signal == KILL => self.die(kernel, signal),
                Some(text) if text.is_empty() => {}
                Some(_) if self.is_in_command() => kept.push(signal),
                Some(text) => {
                    // `wait` ends with the signal.
                    if matches!(self.frames.last(), Some(Frame::Wait(_))) {
                        self.frames.pop();
                        self.state.code = 128 + signal;
                    }
                    self.frames.push(Frame::TrapEnd(self.state.code));
                    self.push_script(kernel, &text, "", false);
                }
                // These do nothing, or need job control.
                None if matches!(signal, 17..=23 | 28) => {}
                // The first process of a container has no default actions.
                None if self.pid == 1 && signal != PIPE => {}
                None => self.die(kernel, signal),
            }
        }
        let any = kept.is_empty();
        self.signals = kept;
        any
    }

    /// Passes a signal to a program that waits for it. Returns false if none does.
    fn handle(&mut self, signal: u8) -> bool {
        let Some(Frame::AwaitSignal(handlers)) = self.frames.last_mut() else { return false };
        let Some(at) = handlers.iter().position(|(own, _)| *own == signal) else { return false };
        let (_, next) = handlers.swap_remove(at);
        self.frames.pop();
        if let Some(Frame::Effects(rest, _)) = self.frames.last_mut() {
            for effect in next.into_iter().rev() {
                rest.push_front(effect);
            }
        }
        true
    }

    /// Whether a command runs that a trap must wait for.
    fn is_in_command(&self) -> bool {
        !self.pending.is_empty()
            || matches!(
                self.frames.last(),
                Some(
                    Frame::Program(_)
                        | Frame::Effects(..)
                        | Frame::Sleep(_)
                        | Frame::AwaitSignal(_)
                        | Frame::AwaitNetwork(..)
                        | Frame::AwaitChild(_)
                        | Frame::AwaitPipeline(_)
                        | Frame::AwaitOutput(..)
                        | Frame::ReadVariables(..)
                )
            )
    }

    /// Ends the process as a signal does.
    pub(super) fn die(&mut self, kernel: &mut Kernel, signal: u8) {
        kernel.deaths.insert(self.pid, signal);
        self.has_left = true;
        self.pending.clear();
        self.ended = Some(128 + signal);
    }
}
