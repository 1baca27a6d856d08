//! Names of client programs: the `User-Agent` header that is stored with each write, and the field manager
//! that a request states or that follows from that header. Pure. User identities are `authn`'s.

use http::HeaderMap;
use http::header::USER_AGENT;
use kstore_storage::limits;

/// The `User-Agent` of a request, cut at [`limits::USER_AGENT_BYTES`]; empty without one. Every write stores
/// it.
pub(crate) fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Text of a header is ASCII, so any byte is a boundary.
    agent[..agent.len().min(limits::USER_AGENT_BYTES)].to_owned()
}

/// The field manager of a write that states none: the part of the user agent before the first slash, without
/// characters that cannot be printed, at most [`limits::FIELD_MANAGER_BYTES`]. The rule is Kubernetes'.
pub(crate) fn default_field_manager(agent: &str) -> String {
    let program = agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in program.chars().filter(|character| !character.is_control()) {
        if manager.len() + character.len_utf8() > limits::FIELD_MANAGER_BYTES {
            break;
        }
        manager.push(character);
    }
    manager
}

/// Whether a stated field manager can be recorded.
///
/// # Errors
/// The problem with the name, in Kubernetes' words.
pub(crate) fn check_field_manager(manager: &str) -> Result<(), String> {
    if manager.len() > limits::FIELD_MANAGER_BYTES {
        return Err(format!("Too long: may not be more than {} bytes", limits::FIELD_MANAGER_BYTES));
    }
    if manager.chars().any(char::is_control) {
        return Err(format!("Invalid value: {manager:?}: should only contain printable characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn user_agents_are_truncated() {
        let mut headers = HeaderMap::new();
        assert_eq!(user_agent(&headers), "");
        let long = "a".repeat(60_000);
        headers.insert(USER_AGENT, HeaderValue::from_str(&long).unwrap());
        assert_eq!(user_agent(&headers), long[..limits::USER_AGENT_BYTES]);
        headers.insert(USER_AGENT, HeaderValue::from_static("kubectl/v1.36 (linux)"));
        assert_eq!(user_agent(&headers), "kubectl/v1.36 (linux)");
    }

    #[test]
    fn the_default_field_manager_is_the_program_name_without_unprintable_characters() {
        assert_eq!(default_field_manager("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(default_field_manager("a\tb/1"), "ab");
        assert_eq!(default_field_manager(&"x".repeat(300)), "x".repeat(limits::FIELD_MANAGER_BYTES));
        assert_eq!(default_field_manager(""), "");
    }

    #[test]
    fn a_stated_field_manager_is_short_and_printable() {
        assert_eq!(check_field_manager("helm"), Ok(()));
        assert!(check_field_manager(&"x".repeat(129)).unwrap_err().starts_with("Too long"));
        assert!(check_field_manager("a\u{7}").unwrap_err().starts_with("Invalid value"));
    }
}
