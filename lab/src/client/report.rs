//! [`ClientReport`]: a client in answers of the lab.

use super::{ClientState, Looks, process};
use jiff::Timestamp;
use serde::Serialize;

/// A client in answers of the lab.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientReport {
    /// Name.
    pub name: String,
    /// Users that it authenticated as.
    pub users: Vec<String>,
    /// Agents, up to the first slash.
    pub agents: Vec<String>,
    /// Process, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Number of times that the program was started again; 0 for other clients.
    pub incarnation: u32,
    /// Whether the clock waits for it.
    pub counted: bool,
    /// `quiet`, `busy` or `gone`.
    pub state: &'static str,
    /// Why it is busy.
    pub why: Vec<String>,
    /// Open watches.
    pub watches: usize,
    /// Requests so far.
    pub requests: u64,
    /// Writes so far.
    pub writes: u64,
    /// Whether it ever listed with `resourceVersion=0`.
    pub lists_from_cache: bool,
}

/// What the lab says of a client.
pub(super) fn report(
    name: &str,
    client: &ClientState,
    (now, looks, port): (Timestamp, &Looks<'_>, u16),
) -> ClientReport {
    let mut facts = client.facts(now, looks, port);
    // A report takes one look, so it says of a process only whether it runs at this moment.
    if let Some((process, running)) = &mut facts.process {
        *running = Some(looks.now.get(process).map_or(0, |sample| sample.runnable));
    }
    let why = facts.reasons();
    let is_gone = client
        .process()
        .is_some_and(|process| !looks.now.contains_key(&process) && process::sample(process).is_none());
    ClientReport {
        name: name.to_owned(),
        users: client.users.iter().cloned().collect(),
        agents: client.agents.iter().cloned().collect(),
        process: client.process(),
        incarnation: client.incarnation,
        counted: client.is_counted(now),
        state: if is_gone {
            "gone"
        } else if why.is_empty() {
            "quiet"
        } else {
            "busy"
        },
        why,
        watches: client.watches.len(),
        requests: client.requests,
        writes: client.writes,
        lists_from_cache: client.view.lists_from_cache,
    }
}
