//! Which client a request belongs to: by names that tests give (`PUT /clients/NAME`), else by user and agent. Pure.

use kstore_api::status::Status;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How the requests of a named client are recognized. A request matches if every given member does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientMatch {
    /// User name, as a glob.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// User agent up to the first slash, or a glob over all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

impl ClientMatch {
    /// Whether a request of this user with this whole user agent matches.
    pub fn matches(&self, user: &str, agent: &str) -> bool {
        let is_user = self.user.is_empty() || glob(&self.user, user);
        let is_agent = self.agent.is_empty() || self.agent == short_agent(agent) || glob(&self.agent, agent);
        is_user && is_agent && !(self.user.is_empty() && self.agent.is_empty())
    }
}

/// Definition of a named client: the body of `PUT /clients/NAME`. Members that are left out keep their value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientDefinition {
    /// How its requests are recognized.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<ClientMatch>,
    /// Its process, or the leader of its process group, on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Whether the clock waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<bool>,
    /// Real time without traffic after which it is quiet if its process is not known, as a Go duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// What the client says of itself: it has work although it is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<bool>,
}

impl ClientDefinition {
    /// This definition with the members that `newer` gives.
    #[must_use]
    pub fn updated(self, newer: Self) -> Self {
        Self {
            matched: newer.matched.or(self.matched),
            process: newer.process.or(self.process),
            counted: newer.counted.or(self.counted),
            window: newer.window.or(self.window),
            busy: newer.busy.or(self.busy),
        }
    }

    /// The window as a duration; `None` if the definition has none.
    ///
    /// # Errors
    /// It is no duration.
    pub fn window(&self) -> Result<Option<Duration>, Status> {
        self.window.as_deref().map(|text| crate::values::duration(text, "/window")).transpose()
    }
}

/// The part of a user agent that names the program.
pub fn short_agent(agent: &str) -> &str {
    agent.split('/').next().unwrap_or_default().trim()
}

/// Whether `text` matches a pattern in which `*` is any text and `?` one character.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // The last star, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                at = place + 1;
                read = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_any_text_and_single_characters() {
        for (pattern, text) in
            [("*", ""), ("a*c", "abbc"), ("a?c", "abc"), ("*b*", "abc"), ("", ""), ("**a", "ba")]
        {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a?c", "ac"), ("*b", "abc"), ("", "a"), ("?", "")] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn requests_belong_to_clients_by_user_and_agent() {
        let of = |user: &str, agent: &str| ClientMatch { user: user.to_owned(), agent: agent.to_owned() };
        let agent = "backup/v1.2 (linux/amd64)";
        assert!(of("", "backup").matches("u", agent) && of("", "*linux*").matches("u", agent));
        assert!(of("u", "backup").matches("u", agent) && !of("v", "backup").matches("u", agent));
        assert!(of("system:*", "").matches("system:admin", ""));
        assert!(!of("", "").matches("u", agent), "an empty match is no match");
    }
}
