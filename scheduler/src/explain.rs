//! The message of a refusal for conditions and events, as kube-scheduler prints it. Tools and people match
//! these texts.

use crate::decide::Refusal;
use crate::limits::{EVENT_CUT_MARK, EVENT_MESSAGE_BYTES};
use std::collections::BTreeMap;

/// The message for a cluster without nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// `0/N nodes are available: 1 reason, 2 other reason.`, the counted reasons sorted by text. Then `devices`, what
/// was done about the devices of the pod's claims, and `preemption`, which says what preemption does, or why it would not help
/// ([`crate::preemption`]).
pub fn message(refusal: &Refusal, devices: Option<&str>, preemption: Option<&str>) -> String {
    if refusal.nodes == 0 {
        return NO_NODES.to_owned();
    }
    let mut message = match &refusal.contradiction {
        Some(reason) => format!("0/{} nodes are available: {reason}.", refusal.nodes),
        None => counted(refusal.nodes, &reasons(refusal)),
    };
    let preemption = preemption.map(|text| format!("preemption: {text}"));
    let attempts: Vec<&str> = devices.into_iter().chain(preemption.as_deref()).collect();
    if !attempts.is_empty() {
        message.push(' ');
        message.push_str(&attempts.join(", "));
    }
    message
}

/// `0/N nodes are available: …` from reasons and the number of nodes for each.
pub(crate) fn counted(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    let tail = if parts.is_empty() { String::new() } else { format!(" {}.", parts.join(", ")) };
    format!("0/{nodes} nodes are available:{tail}")
}

fn reasons(refusal: &Refusal) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for (_, rejection) in &refusal.rejections {
        rejection.reasons(&mut |reason| count(&mut reasons, reason, 1));
    }
    if let Some(reason) = &refusal.left_out {
        count(&mut reasons, reason, refusal.not_named());
    }
    reasons
}

/// Adds `by` to the count of a reason; zero adds no reason.
pub(crate) fn count(reasons: &mut BTreeMap<String, usize>, reason: &str, by: usize) {
    match reasons.get_mut(reason) {
        Some(count) => *count += by,
        None if by > 0 => {
            reasons.insert(reason.to_owned(), by);
        }
        None => {}
    }
}

/// The message for an event, cut at 1024 bytes with a mark at the cut.
pub fn for_event(message: &str) -> String {
    if message.len() <= EVENT_MESSAGE_BYTES {
        return message.to_owned();
    }
    let mut end = EVENT_MESSAGE_BYTES - EVENT_CUT_MARK.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{EVENT_CUT_MARK}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_message_is_cut_at_the_limit_of_the_api() {
        assert_eq!(for_event("short"), "short");
        let cut = for_event(&"ä".repeat(600));
        assert_eq!((cut.len(), cut.ends_with("ä ...")), (1024, true));
        assert_eq!(for_event(&"x".repeat(1024)).len(), 1024);
        assert_eq!(for_event(&"x".repeat(1025)).len(), 1024);
    }

    #[test]
    fn the_messages_about_devices_and_preemption_are_appended() {
        let refusal = Refusal {
            nodes: 2,
            contradiction: Some("c".into()),
            rejections: vec![],
            plugins: Default::default(),
            left_out: None,
        };
        let available = "0/2 nodes are available: c.";
        assert_eq!(message(&refusal, None, Some("why not.")), format!("{available} preemption: why not."));
        let both = message(&refusal, Some("not yet"), Some("why not."));
        assert_eq!(both, format!("{available} not yet, preemption: why not."));
        assert_eq!(message(&refusal, Some("not yet"), None), format!("{available} not yet"));
        assert_eq!(message(&refusal, None, None), available);
    }
}
