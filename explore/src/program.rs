//! Commands of operators and steps with their placeholders: `{port:NAME}`, `{kubeconfig}`, `{dir}`. Pure but for the choice of free ports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// Values of placeholders in one run.
#[derive(Clone, Debug, Default)]
pub struct Placeholders {
    /// Path of the kubeconfig; empty: not known.
    pub kubeconfig: String,
    /// Empty folder of the run.
    pub dir: String,
    /// Ports by name.
    pub ports: BTreeMap<String, u16>,
}

/// A placeholder is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}")]
pub struct PlaceholderError {
    /// The argument.
    pub text: String,
    /// What is wrong.
    pub problem: String,
}

/// Names of ports in these texts.
pub fn port_names<'t>(texts: impl IntoIterator<Item = &'t String>) -> Vec<String> {
    let mut names = Vec::new();
    for text in texts {
        let mut rest = text.as_str();
        while let Some((_, after)) = rest.split_once("{port:") {
            let Some((name, after)) = after.split_once('}') else { break };
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
            rest = after;
        }
    }
    names
}

/// A text with its placeholders filled in. Other braces stay.
///
/// # Errors
/// A port has no name, or the run has no port of that name.
pub fn filled(text: &str, values: &Placeholders) -> Result<String, PlaceholderError> {
    let mut filled = text.replace("{kubeconfig}", &values.kubeconfig).replace("{dir}", &values.dir);
    while let Some((before, after)) = filled.split_once("{port:") {
        let wrong = |problem: String| PlaceholderError { text: text.to_owned(), problem };
        let (name, after) =
            after.split_once('}').ok_or_else(|| wrong("{port:NAME} has no end".to_owned()))?;
        let port = values.ports.get(name).ok_or_else(|| wrong(format!("there is no port {name:?}")))?;
        filled = format!("{before}{port}{after}");
    }
    Ok(filled)
}

/// Free ports of the loopback interface by name. Another process may take one before the program does.
///
/// # Errors
/// No port is free.
pub fn free_ports(names: &[String]) -> std::io::Result<BTreeMap<String, u16>> {
    // All listen until the last port is known: else one port could be chosen twice.
    let mut listeners = Vec::new();
    let mut ports = BTreeMap::new();
    for name in names {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        ports.insert(name.clone(), listener.local_addr()?.port());
        listeners.push(listener);
    }
    Ok(ports)
}

/// A command whose first word, if it is a relative path with a slash, is relative to a folder.
pub fn in_folder(command: &[String], folder: &Path) -> Vec<String> {
    let mut command = command.to_vec();
    if let Some(first) = command.first_mut()
        && first.contains('/')
        && !first.starts_with('/')
    {
        *first = folder.join(&*first).display().to_string();
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_wrong_ones_are_refused() {
        let texts =
            ["--a=127.0.0.1:{port:metrics}".to_owned(), "{port:b}{port:metrics}".to_owned(), "{".to_owned()];
        assert_eq!(port_names(&texts), ["metrics", "b"]);
        let ports = free_ports(&port_names(&texts)).unwrap();
        assert_ne!(ports["metrics"], ports["b"]);
        let values = Placeholders { kubeconfig: "/k".to_owned(), dir: "/d".to_owned(), ports };
        let text = filled("{kubeconfig} {dir} {port:b} {x}", &values).unwrap();
        assert_eq!(text, format!("/k /d {} {{x}}", values.ports["b"]));
        assert!(filled("{port:none}", &values).is_err() && filled("{port:b", &values).is_err());
    }

    #[test]
    fn relative_commands_are_relative_to_a_folder_and_names_are_not() {
        let first = |command: &str| in_folder(&[command.to_owned()], Path::new("/f")).remove(0);
        assert_eq!(
            (first("./op"), first("op"), first("/op")),
            ("/f/./op".to_owned(), "op".to_owned(), "/op".to_owned())
        );
    }
}
