//! Limits on a pod's Secrets, for accounts that restrict pods to the Secrets that they list. Pure; the texts
//! are Kubernetes'.

use kstore_access::pod_references::items;
use kstore_api::meta;
use serde_json::Value;
use std::collections::BTreeSet;

/// Annotation of an account that limits Secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Whether the account limits Secrets.
pub(super) fn are_limited(account: &Value) -> bool {
    // The values that Go's `ParseBool` parses as true.
    matches!(meta::annotation(account, ENFORCE), Some("1" | "t" | "T" | "TRUE" | "true" | "True"))
}

/// The error of the first reference in a pod's `spec` that the account with this name does not allow.
pub(super) fn refused(account: &Value, name: &str, spec: &Value) -> Option<String> {
    let mountable = Mountable::of(account, name);
    let mut volumes = items(&spec["volumes"]).filter(|volume| volume["secret"].is_object());
    let of_volume = volumes.find_map(|volume| {
        let secret = text(&volume["secret"]["secretName"]);
        mountable.refuses(secret, &format!("volume with secret.secretName=\"{secret}\""))
    });
    let pulls = names(&account["imagePullSecrets"]);
    let of_pull = || {
        let mut given = items(&spec["imagePullSecrets"]).enumerate();
        given.find(|(_, secret)| !pulls.contains(text(&secret["name"]))).map(|(index, secret)| {
            let secret = text(&secret["name"]);
            format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {name} does not reference \
                 that imagePullSecret"
            )
        })
    };
    of_volume
        .or_else(|| mountable.refuse_env(&spec["initContainers"], "init container"))
        .or_else(|| mountable.refuse_env(&spec["containers"], "container"))
        .or_else(of_pull)
}

/// The error of the first such reference in ephemeral containers, which are added to a running pod.
pub(super) fn refused_of_ephemeral(account: &Value, name: &str, spec: &Value) -> Option<String> {
    Mountable::of(account, name).refuse_env(&spec["ephemeralContainers"], "ephemeral container")
}

/// The Secrets that an account lists.
struct Mountable<'a> {
    account: &'a str,
    secrets: BTreeSet<&'a str>,
}

impl<'a> Mountable<'a> {
    fn of(account: &'a Value, name: &'a str) -> Self {
        Self { account: name, secrets: names(&account["secrets"]) }
    }

    fn refuses(&self, secret: &str, what: &str) -> Option<String> {
        let account = self.account;
        (!self.secrets.contains(secret)).then(|| {
            format!("{what} is not allowed because service account {account} does not reference that secret")
        })
    }

    fn refuse_env(&self, containers: &Value, kind: &str) -> Option<String> {
        items(containers).find_map(|container| {
            let name = text(&container["name"]);
            let of_variable = items(&container["env"]).find_map(|variable| {
                let reference = variable["valueFrom"]["secretKeyRef"].as_object()?;
                let secret = reference.get("name").map(text).unwrap_or_default();
                let variable = text(&variable["name"]);
                let what = format!(
                    "{kind} {name} with envVar {variable} referencing secret.secretName=\"{secret}\""
                );
                self.refuses(secret, &what)
            });
            of_variable.or_else(|| {
                items(&container["envFrom"]).find_map(|source| {
                    let reference = source["secretRef"].as_object()?;
                    let secret = reference.get("name").map(text).unwrap_or_default();
                    let what =
                        format!("{kind} {name} with envFrom referencing secret.secretName=\"{secret}\"");
                    self.refuses(secret, &what)
                })
            })
        })
    }
}

fn names(list: &Value) -> BTreeSet<&str> {
    items(list).map(|item| text(&item["name"])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOT_THAT: &str = "is not allowed because service account s2 does not reference that secret";

    fn account() -> Value {
        json!({"secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "pull"}]})
    }

    #[test]
    fn secrets_that_the_account_does_not_list_are_refused() {
        let key = |secret: &str| json!([{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret}}}]}]);
        let whole = |secret: &str| json!([{"name": "c", "envFrom": [{"secretRef": {"name": secret}}]}]);
        let volume = |secret: &str| json!([{"name": "v", "secret": {"secretName": secret}}]);
        for (spec, what) in [
            (json!({"volumes": volume("other")}), "volume with secret.secretName=\"other\""),
            (
                json!({"containers": key("other")}),
                "container c with envVar E referencing secret.secretName=\"other\"",
            ),
            (
                json!({"containers": whole("other")}),
                "container c with envFrom referencing secret.secretName=\"other\"",
            ),
            (
                json!({"initContainers": key("other")}),
                "init container c with envVar E referencing secret.secretName=\"other\"",
            ),
            (
                json!({"initContainers": whole("other")}),
                "init container c with envFrom referencing secret.secretName=\"other\"",
            ),
        ] {
            assert_eq!(refused(&account(), "s2", &spec), Some(format!("{what} {NOT_THAT}")));
        }
        let all = json!({
            "volumes": volume("mine"), "containers": key("mine"), "initContainers": whole("mine"),
            "imagePullSecrets": [{"name": "pull"}],
        });
        assert_eq!(refused(&account(), "s2", &all), None);
        let pulls =
            refused(&account(), "s2", &json!({"imagePullSecrets": [{"name": "pull"}, {"name": "mine"}]}));
        let text = "imagePullSecrets[1].name=\"mine\" is not allowed because service account s2 does not reference that imagePullSecret";
        assert_eq!(pulls.as_deref(), Some(text));
    }

    #[test]
    fn only_the_ephemeral_containers_of_a_running_pod_are_checked() {
        let spec = json!({
            "volumes": [{"name": "v", "secret": {"secretName": "other"}}],
            "ephemeralContainers": [{"name": "d", "envFrom": [{"secretRef": {"name": "other"}}]}],
        });
        let text =
            format!("ephemeral container d with envFrom referencing secret.secretName=\"other\" {NOT_THAT}");
        assert_eq!(refused_of_ephemeral(&account(), "s2", &spec), Some(text));
    }

    #[test]
    fn the_annotation_is_parsed_like_a_go_boolean() {
        let says = |text: &str| are_limited(&json!({"metadata": {"annotations": {ENFORCE: text}}}));
        assert!(says("true") && says("1") && !says("yes") && !says("false"));
        assert!(!are_limited(&Value::Null));
    }
}
