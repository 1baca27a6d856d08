//! Tests of the plan.

use super::plan::{SIGNER, plan};
use crate::action::Action;
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;

fn created(ca: &str) -> ClusterTrustBundle {
    match plan::<ClusterTrustBundle>(&[], ca).as_slice() {
        [Action::Create(object)] => object.typed().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_certificates_are_published_under_a_name_with_their_hash() {
    let bundle = created("pem");
    assert_eq!(bundle.spec.signer_name.as_deref(), Some(SIGNER));
    assert_eq!(bundle.spec.trust_bundle, "pem");
    // The first twelve bytes of the SHA-256 of "pem".
    let name = bundle.metadata.name.clone().unwrap();
    let hash = name.strip_prefix("kubernetes.io:kube-apiserver-serving:").unwrap();
    assert!(hash.len() == 24 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    assert_ne!(created("other").metadata.name, bundle.metadata.name);
    assert_eq!(plan(&[&bundle], "pem"), []);
}

#[test]
fn changed_and_former_bundles_are_replaced() {
    let (own, former) = (created("pem"), created("former"));
    let mut changed = own;
    "tampered".clone_into(&mut changed.spec.trust_bundle);
    let actions = plan(&[&changed, &former], "pem");
    let [Action::Update(update), Action::Delete { target, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(update.typed::<ClusterTrustBundle>().unwrap().spec.trust_bundle, "pem");
    assert_eq!(Some(&target.name), former.metadata.name.as_ref());
}
