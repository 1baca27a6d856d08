//! Reviews: kinds whose objects are answered and not stored, and which webhooks do not see since Kubernetes 1.37.

use kstore_api::kind::Kinds;
use kstore_api::object::{list, text};
use kstore_api::resource::Resource;
use serde_json::Value;
use std::collections::BTreeSet;

/// The reviews by group and plural.
pub(crate) const VIRTUAL: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// The gate of webhooks without reviews, which is on since Kubernetes 1.37.
const EXCLUSION: &str = "ExcludeAdmissionWebhookVirtualResources";

/// Whether webhooks never see requests for the resource, so that a webhook that asks the API server about its own callers does not call
/// itself.
pub(crate) fn is_virtual(resource: &Resource) -> bool {
    VIRTUAL.contains(&(resource.group, resource.plural)) && resource.has_gate(EXCLUSION)
}

/// The reviews that rules of a webhook configuration name and its webhooks do not see, as `PLURAL.GROUP`, sorted. A rule with a wildcard
/// names none: what it means is open.
pub(super) fn named_in_vain(configuration: &Value, kinds: &Kinds) -> Vec<String> {
    let rules = list(&configuration["webhooks"]).iter().flat_map(|webhook| list(&webhook["rules"]));
    let named = rules.flat_map(|rule| {
        let [groups, versions, plurals] =
            ["apiGroups", "apiVersions", "resources"].map(|member| list(&rule[member]).iter().map(text));
        let has_wildcard = groups.clone().chain(versions).chain(plurals.clone()).any(|part| part == "*");
        let pairs = groups.flat_map(move |group| plurals.clone().map(move |plural| (group, plural)));
        pairs.filter(move |_| !has_wildcard)
    });
    let in_vain = named.filter(|(group, plural)| kinds.lookup(group, "v1", plural).is_some_and(is_virtual));
    let in_vain: BTreeSet<String> = in_vain.map(|(group, plural)| format!("{plural}.{group}")).collect();
    in_vain.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::OptIn;
    use kstore_api::version::Minor;
    use serde_json::json;

    #[test]
    fn webhooks_see_reviews_before_1_37_only() {
        for minor in Minor::ALL {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            for (group, plural) in VIRTUAL {
                let row = kinds.lookup(group, "v1", plural).unwrap();
                assert_eq!(is_virtual(row), minor == Minor::V37, "{minor} {plural}");
            }
            assert!(!is_virtual(kinds.lookup("", "v1", "bindings").unwrap()), "{minor}");
        }
    }

    #[test]
    fn rules_that_name_reviews_have_no_effect_from_1_37_on() {
        let rule = |groups: &[&str], versions: &[&str], resources: &[&str]| json!({"rules": [{"apiGroups": groups, "apiVersions": versions, "resources": resources}]});
        let of = |webhooks: Value, minor| {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            named_in_vain(&json!({"webhooks": webhooks}), &kinds)
        };
        let access = ["localsubjectaccessreviews", "subjectaccessreviews", "pods"];
        let named = json!([
            rule(&["authorization.k8s.io", ""], &["v1"], &access),
            rule(&["authentication.k8s.io"], &["v1"], &["tokenreviews"]),
        ]);
        let expected = [
            "localsubjectaccessreviews.authorization.k8s.io",
            "subjectaccessreviews.authorization.k8s.io",
            "tokenreviews.authentication.k8s.io",
        ];
        assert_eq!(of(named.clone(), Minor::V37), expected);
        assert_eq!(of(named, Minor::V36), Vec::<String>::new());
        for (groups, versions, resources) in [
            (["*"], ["v1"], ["tokenreviews"]),
            (["authentication.k8s.io"], ["*"], ["tokenreviews"]),
            (["authentication.k8s.io"], ["v1"], ["*"]),
            ([""], ["v1"], ["tokenreviews"]),
        ] {
            let webhooks = json!([rule(&groups, &versions, &resources)]);
            assert_eq!(
                of(webhooks, Minor::V37),
                Vec::<String>::new(),
                "{groups:?} {versions:?} {resources:?}"
            );
        }
    }
}
