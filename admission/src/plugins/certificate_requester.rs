//! CertificateRequester: the server sets the requesting user in a CertificateSigningRequest and
//! overwrites the values in the request. Signers rely on it.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::Always,
    kinds: &[("certificates.k8s.io", "certificatesigningrequests")],
    mutates: &[Operation::Create],
    ..Row::new("CertificateRequester", || Arc::new(CertificateRequester))
};

struct CertificateRequester;

impl Plugin for CertificateRequester {
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let subject = review.subject;
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
            let user = subject.user;
            spec.insert("username".into(), json!(user.username));
            for (member, said, value) in [
                ("uid", !user.uid.is_empty(), json!(user.uid)),
                ("groups", !user.groups.is_empty(), json!(user.groups)),
                ("extra", !user.extra.is_empty(), json!(user.extra)),
            ] {
                if said {
                    spec.insert(member.into(), value);
                } else {
                    spec.remove(member);
                }
            }
        }
        Ok(())
    }
}
