//! CertificateRequester: the server sets the requesting user in a CertificateSigningRequest and
//! overwrites the values in the request. Signers rely on it.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use serde_json::{Value, json};

pub(super) struct CertificateRequester;

impl Plugin for CertificateRequester {
    fn mutate(
        &self,
        _cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: &mut Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        let requests = subject.is("certificates.k8s.io", "certificatesigningrequests");
        if requests
            && subject.operation == Operation::Create
            && let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        {
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
