//! The trust bundle of the API server's signer. Pure.

use crate::action::{Action, Propagation, Target};
use crate::object::Object;
use crate::stable_kinds::TrustBundle;
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundleSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_api::validate::trust_bundle::name_prefix;
use ring::digest::{SHA256, digest};

/// The signer of the API server's certificate.
pub(super) const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// Bytes of the certificates' hash in the name of a bundle.
const HASH_BYTES: usize = 12;

/// Name of the bundle with these certificates: it changes with them, so that a new bundle exists before the old one
/// is deleted.
fn bundle_name(ca: &str) -> String {
    let hash = digest(&SHA256, ca.as_bytes());
    let hash: String = hash.as_ref().iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{}{hash}", name_prefix(SIGNER))
}

/// Writes after which the certificates `ca` (PEM) are the only bundle of the signer. `bundles` are the stored ones.
pub(super) fn plan<B: TrustBundle>(bundles: &[&B], ca: &str) -> Vec<Action> {
    let own = bundle_name(ca);
    let is_own = |bundle: &&&B| bundle.metadata().name.as_deref() == Some(&own);
    let mut actions = Vec::new();
    match bundles.iter().find(is_own) {
        None => {
            let metadata = ObjectMeta { name: Some(own.clone()), ..ObjectMeta::default() };
            let spec =
                ClusterTrustBundleSpec { signer_name: Some(SIGNER.to_owned()), trust_bundle: ca.to_owned() };
            actions.push(Action::Create(Object::of(&B::new(metadata, spec))));
        }
        Some(bundle) if bundle.spec().trust_bundle != ca => {
            let mut bundle = (**bundle).clone();
            ca.clone_into(&mut bundle.spec_mut().trust_bundle);
            actions.push(Action::Update(Object::of(&bundle)));
        }
        Some(_) => {}
    }
    actions.extend(bundles.iter().filter(|bundle| !is_own(bundle)).map(|bundle| Action::Delete {
        target: Target { resource_version: None, ..Target::of(*bundle) },
        propagation: Propagation::Background,
        force: false,
    }));
    actions
}
