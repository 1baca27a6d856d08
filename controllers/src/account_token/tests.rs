//! Tests of the content of Secrets with tokens.

use super::plan::{account_name, belongs_to, filled, needs_token, without_reference};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Value, from_value, json};

fn account(uid: &str) -> ServiceAccount {
    from_value(json!({"metadata": {"name": "builder", "namespace": "ns", "uid": uid}})).unwrap()
}

/// Entries of a Secret as text.
type Entries<'e> = &'e [(&'e str, &'e str)];

/// A Secret of the account `builder` with this uid and these entries.
fn secret(uid: &str, data: Entries<'_>) -> Secret {
    let mut annotations = json!({"kubernetes.io/service-account.name": "builder"});
    if !uid.is_empty() {
        annotations["kubernetes.io/service-account.uid"] = json!(uid);
    }
    let text: Value = json!({"metadata": {"name": "t", "namespace": "ns", "annotations": annotations}});
    let mut secret: Secret = from_value(text).unwrap();
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), k8s_openapi::ByteString((*value).into()));
    secret.data = Some(data.iter().map(entry).collect());
    secret
}

/// The entries of a Secret as text.
fn entries(secret: &Secret) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))).collect()
}

#[test]
fn a_secret_gets_what_it_lacks() {
    let (token, ca, ns) = (("token", "T"), ("ca.crt", "PEM"), ("namespace", "ns"));
    let table: [(Entries<'_>, &str, Option<Entries<'_>>); 8] = [
        (&[], "PEM", Some(&[ca, ns, ("token", "NEW")])),
        (&[], "", Some(&[ns, ("token", "NEW")])),
        (&[token], "PEM", Some(&[ca, ns, token])),
        (&[("token", "")], "", Some(&[ns, ("token", "NEW")])),
        (&[token, ("ca.crt", "OLD"), ns], "PEM", Some(&[ca, ns, token])),
        (&[token, ca, ("namespace", "other")], "PEM", None),
        (&[token, ca, ns], "PEM", None),
        (&[("extra", "x"), ca, ns], "PEM", Some(&[ca, ("extra", "x"), ns, ("token", "NEW")])),
    ];
    for (data, root_ca, expected) in table {
        let before = secret("", data);
        let token = needs_token(&before).then(|| "NEW".to_owned());
        let after = filled(&before, &account("u1"), root_ca, token);
        let expected: Option<Vec<_>> =
            expected.map(|all| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        assert_eq!(after.as_ref().map(entries), expected, "{data:?} {root_ca}");
        if let Some(after) = after {
            assert_eq!(after.metadata.annotations.unwrap()["kubernetes.io/service-account.uid"], "u1");
        }
    }
}

#[test]
fn a_secret_belongs_to_the_account_with_its_uid() {
    assert_eq!(account_name(&secret("u1", &[])), "builder");
    for (uid, expected) in [("", true), ("u1", true), ("u2", false)] {
        assert_eq!(belongs_to(&secret(uid, &[]), &account("u1")), expected, "{uid}");
    }
}

#[test]
fn an_account_loses_the_reference_to_a_deleted_secret() {
    let mut account = account("u1");
    assert_eq!(without_reference(&account, "t"), None);
    account.secrets = from_value(json!([{"name": "t"}, {"name": "other"}])).unwrap();
    let kept = without_reference(&account, "t").unwrap().secrets.unwrap();
    assert_eq!(kept.iter().map(|kept| kept.name.as_deref().unwrap()).collect::<Vec<_>>(), ["other"]);
    assert_eq!(without_reference(&account, "another"), None);
}
