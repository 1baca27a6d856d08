//! `kstore-server basic-auth USER`: hashes a password, and prints the line for `--basic-auth-file`.

use crate::args::BasicAuthArgs;
use anyhow::{Context, ensure};
use kstore_access::authn::BasicAuthLine;
use kstore_nondet::Rng;
use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::process::ExitCode;

/// Carries out the command.
pub(crate) fn basic_auth(args: &BasicAuthArgs) -> anyhow::Result<ExitCode> {
    let password = read_password()?;
    let line = BasicAuthLine { user: &args.user, password: &password, uid: &args.uid, groups: &args.group };
    let line = line.render(&Rng::from_os())?;
    writeln!(io::stdout(), "{line}").context("cannot write the line")?;
    Ok(ExitCode::SUCCESS)
}

/// The password: twice from the terminal, without showing it, or the first line of another standard input.
fn read_password() -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return first_line(io::stdin().lock());
    }
    let ask = |prompt: &str| {
        let _hidden = hidden_input::HiddenInput::new();
        write!(io::stderr(), "{prompt}: ").context("cannot ask for the password")?;
        let typed = first_line(io::stdin().lock());
        let _ = writeln!(io::stderr());
        typed
    };
    let (first, second) = (ask("Password")?, ask("Password again")?);
    ensure!(first == second, "the passwords differ");
    Ok(first)
}

fn first_line(mut input: impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line).context("cannot read the password")?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    Ok(password.strip_suffix('\r').unwrap_or(password).to_owned())
}

#[cfg(unix)]
mod hidden_input {
    //! [`HiddenInput`]: a terminal that does not show what is typed.

    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
    use std::io;

    /// Hides input on the terminal of standard input until it is dropped.
    pub(super) struct HiddenInput(Option<Termios>);

    impl HiddenInput {
        /// Input stays visible if the terminal cannot be configured.
        pub(super) fn new() -> Self {
            let before = tcgetattr(io::stdin()).ok();
            if let Some(mut hidden) = before.clone() {
                hidden.local_modes.remove(LocalModes::ECHO);
                let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &hidden);
            }
            Self(before)
        }
    }

    impl Drop for HiddenInput {
        fn drop(&mut self) {
            if let Some(before) = &self.0 {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            }
        }
    }
}

#[cfg(not(unix))]
mod hidden_input {
    //! [`HiddenInput`], where the system offers no call for it: input stays visible.

    pub(super) struct HiddenInput;

    impl HiddenInput {
        pub(super) fn new() -> Self {
            Self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_break() {
        for (input, password) in [
            ("secret\nmore\n", "secret"),
            ("secret\r\n", "secret"),
            ("no break", "no break"),
            (" spaces \n", " spaces "),
            ("", ""),
        ] {
            assert_eq!(first_line(input.as_bytes()).unwrap(), password);
        }
    }
}
