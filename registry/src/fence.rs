//! [`Fence`]: the term of leadership in which a request writes. It parses the header and compares the term
//! with a Lease. `registry` makes sure that the term holds at the revision of the write. Clocks play no role.

use http::HeaderMap;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// The header, or gRPC metadata key, in which a client names its term of leadership (`kstore.proto` has its
/// grammar).
const HEADER: &str = "kstore-fence";

/// Bytes of the longest object name.
const NAME: usize = 253;

/// A term of leadership: a Lease, its holder, and its number of transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    namespace: String,
    name: String,
    holder: String,
    transitions: i32,
}

impl Fence {
    /// Parses the fence from the headers, if there is one.
    ///
    /// # Errors
    /// 400 if the fence is malformed: a write that should be fenced must not be carried out without its
    /// fence.
    pub fn of(headers: &HeaderMap) -> Result<Option<Arc<Self>>, Status> {
        let mut values = headers.get_all(HEADER).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(malformed("it must occur once")),
            (Some(value), None) => {
                let text = value.to_str().map_err(|_| malformed("it must be plain ASCII"))?;
                Self::parse(text).map(Arc::new).map(Some).map_err(malformed)
            }
        }
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let parts: Vec<_> = text.split('/').collect();
        let &[namespace, name, transitions, holder] = parts.as_slice() else {
            return Err("it must be namespace/name/transitions/holder");
        };
        if !is_name(namespace) || !is_name(name) {
            return Err("it does not name a lease");
        }
        let holder = decoded(holder).filter(|holder| !holder.is_empty());
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            holder: holder.ok_or("the holder must be percent-encoded UTF-8, and not empty")?,
            transitions: number(transitions).ok_or("the transitions must be a decimal number")?,
        })
    }

    /// The namespace of the Lease.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The storage key of the Lease.
    pub fn key(&self) -> String {
        leases().storage_key(&self.namespace, &self.name)
    }

    /// Whether the Lease, if it exists, still names this holder and this number of transitions.
    pub fn holds(&self, lease: Option<&Value>) -> bool {
        let Some(spec) = lease.map(|lease| &lease["spec"]) else { return false };
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        spec["holderIdentity"] == self.holder && transitions == i64::from(self.transitions)
    }

    /// 409: the term is over.
    pub fn broken(&self) -> Status {
        let why =
            format!("{:?} does not hold it with {} transitions any more", self.holder, self.transitions);
        let text = format!("{why}: nothing was written");
        Status::conflict(leases(), &self.name, &text).cause("LeaseNotHeld", why)
    }
}

/// The table row of Leases.
pub fn leases() -> &'static Resource {
    kind::lookup("coordination.k8s.io", "v1", "leases").expect("leases are in the table")
}

fn malformed(why: &str) -> Status {
    Status::bad_request(format!("the header {HEADER} is malformed: {why}"))
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    (1..=NAME).contains(&text.len()) && text.bytes().all(fits)
}

/// Parses a decimal number without sign or leading zeros.
fn number(text: &str) -> Option<i32> {
    let canonical = text == "0" || !text.starts_with('0');
    text.parse().ok().filter(|_| canonical && text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'-' | b'.' | b'_' | b'~' => byte,
            byte if byte.is_ascii_alphanumeric() => byte,
            _ => return None,
        });
    }
    String::from_utf8(plain).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| value.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn malformed_fences_are_refused() {
        let fence = Fence::parse("kube-system/office/7/host-1_5f%2F%C3%A4%20").unwrap();
        assert_eq!(fence.key(), "/registry/leases/kube-system/office");
        assert_eq!((fence.holder.as_str(), fence.transitions), ("host-1_5f/ä ", 7));
        let bad = [
            "",
            "office/7/a",
            "ns/office/7/",
            "ns/office/7/a/b",
            "/office/7/a",
            "ns//7/a",
            "ns/../7/a%",
            "ns/Office/7/a",
            "ns/office/+7/a",
            "ns/office/07/a",
            "ns/office/-7/a",
            "ns/office/2147483648/a",
            "ns/office//a",
            "ns/office/7/a b",
            "ns/office/7/%4",
            "ns/office/7/%zz",
            "ns/office/7/%ff",
        ];
        for text in bad {
            assert!(Fence::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_malformed_fence_header_is_refused_and_a_missing_one_is_no_fence() {
        let mut headers = HeaderMap::new();
        assert_eq!(Fence::of(&headers), Ok(None));
        headers.insert(HEADER, "ns/office/7/a".parse().unwrap());
        assert!(Fence::of(&headers).unwrap().is_some());
        headers.append(HEADER, "ns/office/7/a".parse().unwrap());
        assert_eq!(Fence::of(&headers).unwrap_err().code, 400);
        headers.insert(HEADER, http::HeaderValue::from_bytes(b"ns/office/7/\xe4").unwrap());
        assert_eq!(Fence::of(&headers).unwrap_err().code, 400);
    }

    #[test]
    fn a_term_holds_while_holder_and_transitions_are_unchanged() {
        let fence = Fence::parse("ns/office/0/a").unwrap();
        let lease = |spec: Value| json!({ "spec": spec });
        assert!(fence.holds(Some(&lease(json!({ "holderIdentity": "a" })))), "none is zero");
        assert!(fence.holds(Some(&lease(json!({ "holderIdentity": "a", "leaseTransitions": 0 })))));
        for other in [
            json!({ "holderIdentity": "b" }),
            json!({ "holderIdentity": "a", "leaseTransitions": 1 }),
            json!({}),
        ] {
            assert!(!fence.holds(Some(&lease(other))));
        }
        assert!(!fence.holds(None));
        assert_eq!((fence.broken().code, fence.broken().reason.as_str()), (409, "Conflict"));
    }
}
