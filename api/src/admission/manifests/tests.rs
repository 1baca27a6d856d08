//! Which manifests are read, and what is said about others.

use super::*;
use crate::kind;
use serde_json::json;

const PLUGIN: ManifestPlugin = ManifestPlugin::ValidatingPolicies;

fn file(text: &str) -> ManifestFile {
    ManifestFile { path: "/m/a.yaml".to_owned(), text: text.to_owned() }
}

fn read(plugin: ManifestPlugin, text: &str) -> Result<Manifests, String> {
    Manifests::read(plugin, Minor::V37, &[file(text)])
}

fn policy(name: &str, more: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\n\
         spec:\n  matchConstraints: {{resourceRules: [{{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}\n  \
         validations: [{{expression: \"true\"}}]\n{more}"
    )
}

fn binding(name: &str, policy: &str, more: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}}}\n\
         spec: {{policyName: {policy}, validationActions: [Deny]{more}}}\n"
    )
}

fn hooks(name: &str, client: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: {name}}}\n\
         webhooks:\n- name: h.example.org\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  clientConfig: {{{client}}}\n  \
         rules: [{{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]\n"
    )
}

#[test]
fn documents_of_a_file_and_items_of_a_list_are_read_with_their_defaults() {
    let both = format!(
        "# a comment\n---\n{}---\n{}---\n\n",
        binding("b.static.k8s.io", "p.static.k8s.io", ""),
        policy("p.static.k8s.io", "")
    );
    let own = read(PLUGIN, &both).unwrap();
    assert_eq!((own.configurations.len(), own.bindings.len()), (1, 1));
    assert_eq!(own.configurations[0]["spec"]["failurePolicy"], "Fail", "a default");
    let items: Vec<Value> = own.configurations.iter().chain(&own.bindings).cloned().collect();
    let listed = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    assert_eq!(read(PLUGIN, &listed), Ok(own.clone()), "JSON, too");
    let typed = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyList",
        "items": own.configurations});
    assert_eq!(read(PLUGIN, &typed.to_string()).unwrap().configurations, own.configurations);
    assert_eq!(read(PLUGIN, "---\n# nothing\n"), Ok(Manifests::default()));
    let hooked =
        read(ManifestPlugin::ValidatingWebhooks, &hooks("w.static.k8s.io", "url: 'https://a.example/b'"));
    assert_eq!(hooked.unwrap().configurations[0]["webhooks"][0]["timeoutSeconds"], 10, "a default");
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let good = policy("p.static.k8s.io", "");
    let bound = |more: &str, policy: &str| format!("{good}---\n{}", binding("b.static.k8s.io", policy, more));
    for (plugin, text, expected) in [
        (
            PLUGIN,
            policy("p", ""),
            "\"p\" in file \"/m/a.yaml\" must have a name ending with \".static.k8s.io\"",
        ),
        (
            PLUGIN,
            format!("{good}---\n{good}"),
            "duplicate name \"p.static.k8s.io\" found in file \"/m/a.yaml\"",
        ),
        (
            PLUGIN,
            policy("p.static.k8s.io", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"),
            "ValidatingAdmissionPolicy \"p.static.k8s.io\": spec.paramKind is not supported for static manifests",
        ),
        (
            PLUGIN,
            policy("p.static.k8s.io", "  novelty: 1\n"),
            "strict decoding error: unknown field \"spec.novelty\"",
        ),
        (PLUGIN, policy("p.static.k8s.io", "kind: A\n"), "already set in map"),
        (
            PLUGIN,
            bound(", paramRef: {name: x, parameterNotFoundAction: Deny}", "p.static.k8s.io"),
            "binding \"b.static.k8s.io\": spec.paramRef is not supported",
        ),
        (PLUGIN, bound("", "p"), "binding \"b.static.k8s.io\": spec.policyName \"p\" must end with"),
        (PLUGIN, bound("", "q.static.k8s.io"), "references policy \"q.static.k8s.io\" which does not exist"),
        (
            PLUGIN,
            "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
            "unsupported resource type /v1, Kind=ConfigMap",
        ),
        (
            ManifestPlugin::MutatingPolicies,
            good.clone(),
            "unsupported resource type admissionregistration.k8s.io/v1",
        ),
        (
            ManifestPlugin::ValidatingWebhooks,
            hooks("w.static.k8s.io", "service: {name: s, namespace: default}"),
            "clientConfig.service is not supported for static manifests; use clientConfig.url instead",
        ),
        (
            ManifestPlugin::ValidatingWebhooks,
            hooks("w.static.k8s.io", "url: 'http://a'"),
            "webhooks[0].clientConfig.url",
        ),
        (PLUGIN, "a: [".to_owned(), "error loading /m/a.yaml: "),
    ] {
        let refused = read(plugin, &text).unwrap_err();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

#[test]
fn the_api_refuses_names_of_manifests_on_servers_that_have_them_and_warns_on_others() {
    let row = |minor: Minor, kind: &str| {
        Kinds::new(OptIn::version(minor), &[], &[]).lookup_kind(GROUP, "v1", kind).unwrap()
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    let (on, off) = (Features { static_manifests: true, ..Features::default() }, Features::default());
    let kind = "ValidatingAdmissionPolicyBinding";
    for minor in Minor::ALL {
        let row = row(minor, kind);
        let errors = refuse_name(row, &named("a.static.k8s.io"), on);
        assert!(errors.iter().next().unwrap().to_string().starts_with(
            "metadata.name: Invalid value: \"a.static.k8s.io\": names ending with \".static.k8s.io\" are reserved"
        ));
        assert!(refuse_name(row, &named("a.static.k8s.io"), off).is_empty());
        let warning = warn_of_name(row, &named("a.static.k8s.io"), off);
        assert_eq!(warning.is_some(), minor >= Minor::V36, "{minor}");
        assert!(refuse_name(row, &named("static.k8s.io"), on).is_empty());
    }
    let pods = kind::lookup("", "v1", "pods").unwrap();
    assert!(refuse_name(pods, &named("a.static.k8s.io"), on).is_empty());
    assert!(OptIn::version(Minor::V37).features().static_manifests);
    assert!(!OptIn::version(Minor::V36).features().static_manifests);
}
