//! ClusterTrustBundleAttest.

use super::{Operation, TestRequest, UserInfo, chain_of, refused};
use crate::plugins::cluster_trust_bundle_attest::ROW;
use crate::subject::Subject;
use kstore_api::kind;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::MASTERS;
use serde_json::{Value, json};

fn bundle(signer: Option<&str>, labels: Value) -> Value {
    json!({ "metadata": { "name": "b", "labels": labels }, "spec": { "signerName": signer, "trustBundle": "pem" } })
}

#[test]
fn a_bundle_of_a_signer_is_written_only_by_users_that_may_attest() {
    let row = kind::known("certificates.k8s.io/v1beta1", "ClusterTrustBundle").unwrap();
    let rbac = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let grant = |user: &str, signer: &str| {
        let rule = json!({ "verbs": ["attest"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer] });
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user });
        let binding = json!({ "roleRef": role, "subjects": [{ "kind": "User", "name": user }] });
        [rbac("ClusterRole", user, json!({ "rules": [rule] })), rbac("ClusterRoleBinding", user, binding)]
    };
    let cluster = MapLookup::of(grant("ann", "k.io/one").into_iter().chain(grant("bob", "k.io/*")));
    let ask = |user: UserInfo, new: Option<&Value>, old: Option<&Value>| {
        let operation = match (new, old) {
            (None, _) => Operation::Delete,
            (_, None) => Operation::Create,
            _ => Operation::Update,
        };
        let subject = Subject {
            user: &user,
            operation,
            resource: row,
            subresource: "",
            namespace: "",
            name: "b",
            seed: 0,
        };
        let admission = chain_of(&ROW, (ROW.plugin)(), cluster.clone());
        let judged = TestRequest::new(&admission, subject).validate(new, old);
        judged.map_err(|undecided| refused(undecided).message)
    };
    let user = |name: &str| UserInfo::new(name, [""; 0]);
    let (one, two, free) =
        (bundle(Some("k.io/one"), json!({})), bundle(Some("k.io/two"), json!({})), bundle(None, json!({})));
    let denied = |signer: &str| {
        Err(format!(
            "clustertrustbundles.certificates.k8s.io \"b\" is forbidden: user not permitted to attest for signerName {signer:?}"
        ))
    };
    assert_eq!(ask(user("ann"), Some(&one), None), Ok(()));
    assert_eq!(ask(user("ann"), Some(&two), None), denied("k.io/two"));
    assert_eq!(ask(user("bob"), Some(&two), None), Ok(()), "all signers of the domain");
    assert_eq!(ask(user("eve"), Some(&free), None), Ok(()), "no signer");
    assert_eq!(ask(UserInfo::new("root", [MASTERS]), Some(&two), None), Ok(()));
    assert_eq!(ask(user("eve"), None, Some(&one)), Ok(()), "a deletion");
    let mut owned = one.clone();
    owned["metadata"]["ownerReferences"] = json!([{ "uid": "u" }]);
    assert_eq!(ask(user("eve"), Some(&owned), Some(&one)), Ok(()), "garbage collection");
    assert_eq!(
        ask(user("eve"), Some(&bundle(Some("k.io/one"), json!({ "a": "b" }))), Some(&one)),
        denied("k.io/one")
    );
}
