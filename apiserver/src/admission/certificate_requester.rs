//! Who asks for a certificate is written into the request by the server, whatever the request said. Signers rely on it.

use super::{Operation, Plugin, Subject};
use crate::lookup::Lookup;
use kstore_api::status::Status;
use serde_json::{Value, json};

pub(super) struct CertificateRequester;

impl Plugin for CertificateRequester {
    fn mutate(
        &self,
        _cluster: &dyn Lookup,
        subject: &Subject<'_>,
        new: &mut Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        let requests = subject.is("certificates.k8s.io", "certificatesigningrequests");
        if requests && subject.operation == Operation::Create && new["spec"].is_object() {
            let (spec, user) = (&mut new["spec"], subject.user);
            spec["username"] = json!(user.username);
            for (member, value) in
                [("uid", json!(user.uid)), ("groups", json!(user.groups)), ("extra", json!(user.extra))]
            {
                spec[member] = value;
            }
        }
        Ok(())
    }
}
