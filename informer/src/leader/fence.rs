//! [`Fence`]: fencing token of one term of leadership. A store uses it to refuse writes of a deposed leader.

use std::fmt;

/// Fencing token of one term of leadership: the lease, its holder and its number of transitions. A store
/// refuses writes with an outdated token, independent of clocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// Identity of the leader in this term.
    pub holder: String,
    /// The lease's `leaseTransitions` in this term.
    pub transitions: u32,
}

/// `namespace/name/transitions/holder`, as in the `kstore-fence` header. The holder may be any text and is
/// percent-encoded: every byte except ASCII letters, digits and `-._~` becomes `%` and two upper-case hex
/// digits.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/", self.namespace, self.name, self.transitions)?;
        for byte in self.holder.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => write!(f, "{}", char::from(byte))?,
                byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_header_escapes_any_holder() {
        let holder = "host-1_5f0c/ä %\n".to_owned();
        let fence =
            Fence { namespace: "kube-system".into(), name: "scheduler".into(), holder, transitions: 7 };
        let text = fence.to_string();
        assert_eq!(text, "kube-system/scheduler/7/host-1_5f0c%2F%C3%A4%20%25%0A");
    }
}
