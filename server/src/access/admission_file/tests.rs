//! Files that are used, files that are not, and a server with the flags.

use super::*;
use crate::args::Cli;
use crate::wiring;
use kstore_admission::PluginSwitches;
use kstore_client::Gvr;
use serde_json::json;
use std::fs;

fn open(dir: &Path, text: &str, enabled: Option<&'static str>) -> Result<String, String> {
    open_on(Minor::DEFAULT, dir, text, enabled)
}

fn open_on(minor: Minor, dir: &Path, text: &str, enabled: Option<&'static str>) -> Result<String, String> {
    let file = dir.join("admission.yaml");
    fs::write(&file, text).unwrap();
    let switches = PluginSwitches { enabled: enabled.into_iter().collect(), ..PluginSwitches::default() };
    let config = AdmissionConfig { switches, file: Some(file), warnings: Vec::new() };
    let opened = configured_plugins(&config, &Rng::seeded(1), &OptIn::version(minor));
    opened.map(|configured| format!("{configured:?}")).map_err(|error| format!("{error:#}"))
}

/// A configuration of a plugin of webhooks or policies.
fn manifests(plugin: &str, kind: &str, member: &str) -> String {
    format!(
        "{HEAD}plugins: [{{name: {plugin}, configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: {kind}, {member}}}}}]"
    )
}

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";

#[test]
fn configurations_are_inline_or_in_files_beside_this_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("selector.yaml"), "podNodeSelectorPluginConfig: {a: x=y}").unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1/images'}}], users: [{name: u, user: {}}]}").unwrap();
    let text = format!(
        "{HEAD}plugins:
- name: PodSecurity
  path: no-such-file
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {{enforce: baseline}}
- name: PodNodeSelector
  path: selector.yaml
- name: EventRateLimit
  configuration: {{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{{type: Server, qps: 5, burst: 5}}]}}
- name: ImagePolicyWebhook
  configuration: {{imagePolicy: {{kubeConfigFile: {}, defaultAllow: true}}}}
",
        kubeconfig.display()
    );
    let all = r#"{"EventRateLimit", "ImagePolicyWebhook", "PodNodeSelector", "PodSecurity"}"#;
    assert_eq!(open(dir.path(), &text, Some("ImagePolicyWebhook")).as_deref(), Ok(all));
    assert_eq!(open(dir.path(), HEAD, None).as_deref(), Ok("{}"));
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let dir = tempfile::tempdir().unwrap();
    for (text, expected) in [
        (
            "kind: AdmissionConfiguration",
            "expected apiserver.config.k8s.io/v1 AdmissionConfiguration, found \"\"",
        ),
        ("plugin: []", "unknown field `plugin`"),
        (&format!("{HEAD}plugins: [{{name: PodSecurity, config: x}}]"), "unknown field `config`"),
        (
            &format!("{HEAD}plugins: [{{name: PodSecurity}}]"),
            "plugins[0] (name: \"PodSecurity\"): path or configuration: required",
        ),
        (&format!("{HEAD}plugins: [{{name: PodSecurity, path: absent}}]"), "absent: No such file"),
        (
            &format!("{HEAD}plugins: [{{name: Nonsense, configuration: {{}}}}]"),
            "admission plugin \"Nonsense\" is unknown",
        ),
        (
            &format!("{HEAD}plugins: [{{name: Priority, configuration: {{}}}}]"),
            "admission plugin Priority takes no configuration",
        ),
        (
            &format!("{HEAD}plugins: [{{name: ResourceQuota, configuration: {{}}}}]"),
            "expected apiserver.config.k8s.io/v1 ResourceQuotaConfiguration",
        ),
        (
            &format!("{HEAD}plugins: [{{name: ValidatingAdmissionWebhook, configuration: {{}}}}]"),
            "expected apiserver.config.k8s.io/v1 WebhookAdmissionConfiguration",
        ),
        (
            &manifests("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", "kubeConfigFile: k"),
            "kstore does not support kubeConfigFile",
        ),
        (
            &manifests(
                "MutatingAdmissionPolicy",
                "MutatingAdmissionPolicyConfiguration",
                "staticManifestsDir: /m",
            ),
            "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate",
        ),
        (
            &manifests(
                "MutatingAdmissionPolicy",
                "ValidatingAdmissionPolicyConfiguration",
                "staticManifestsDir: /m",
            ),
            "expected apiserver.config.k8s.io/v1 MutatingAdmissionPolicyConfiguration",
        ),
        (
            &format!("{HEAD}plugins: [{{name: ImagePolicyWebhook, configuration: {{}}}}]"),
            "imagePolicy: required",
        ),
        (
            &format!(
                "{HEAD}plugins: [{{name: ImagePolicyWebhook, configuration: {{imagePolicy: {{kubeConfigFile: absent}}}}}}]"
            ),
            "cannot use imagePolicy.kubeConfigFile absent",
        ),
    ] {
        let refused = open_on(Minor::V36, dir.path(), text, None).unwrap_err();
        assert!(refused.contains("cannot use --admission-control-config-file"), "{refused}");
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    let refused = open(dir.path(), HEAD, Some("EventRateLimit")).unwrap_err();
    assert!(refused.starts_with("admission plugin EventRateLimit is enabled and needs"), "{refused}");
}

const DENY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
    metadata: {name: deny.static.k8s.io}\nspec:\n  validations: [{expression: 'object.metadata.name != \"bad\"', message: not by a file}]\n  \
    matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], resources: ['*']}]}\n---\n\
    apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: deny.static.k8s.io}\n\
    spec: {policyName: deny.static.k8s.io, validationActions: [Deny]}\n";

#[test]
fn a_folder_of_manifests_is_read_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("policies");
    fs::create_dir(&folder).unwrap();
    let member = format!("staticManifestsDir: {}", folder.display());
    let text = manifests("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", &member);
    let open = || open_on(Minor::V37, dir.path(), &text, None);
    assert_eq!(open().as_deref(), Ok(r#"{"ValidatingAdmissionPolicy"}"#));
    fs::write(folder.join("deny.yaml"), DENY).unwrap();
    assert!(open().is_ok());
    fs::write(
        folder.join("deny.yaml"),
        DENY.replace("Deny]", "Deny], paramRef: {name: x, parameterNotFoundAction: Deny}"),
    )
    .unwrap();
    let refused = open().unwrap_err();
    assert!(
        refused.contains("deny.yaml: binding \"deny.static.k8s.io\": spec.paramRef is not supported"),
        "{refused}"
    );
    let older = open_on(Minor::V36, dir.path(), &text, None).unwrap_err();
    assert!(older.contains("requires the ManifestBasedAdmissionControlConfig feature gate"), "{older}");
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_files_hold_also_for_admission_itself_and_follow_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let (file, policies) = (dir.path().join("admission.yaml"), dir.path().join("policies"));
    fs::create_dir(&policies).unwrap();
    fs::write(policies.join("deny.yaml"), DENY).unwrap();
    let member = format!("staticManifestsDir: {}", policies.display());
    let text = manifests("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", &member);
    fs::write(&file, text).unwrap();
    let line = format!(
        "kstore-server --in-memory --listen 127.0.0.1:0 --components apiserver --kubernetes-version 1.36 \
         --feature-gates ManifestBasedAdmissionControlConfig=true --admission-control-config-file {}",
        file.display()
    );
    let config = Cli::try_parse_from(line.split_whitespace()).unwrap().serve.into_config().unwrap();
    let cluster = wiring::start(&config).await.unwrap();
    let client = cluster.client().unwrap();
    let create = async |group: &'static str, plural: &'static str, namespace: &str, object: Value| {
        let created = client.dynamic(Gvr::new(group, "v1", plural)).create(namespace, &object).await;
        created.map(drop).map_err(|error| error.to_string())
    };
    let map = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    create("", "configmaps", "default", map("good")).await.unwrap();
    let refused = create("", "configmaps", "default", map("bad")).await.unwrap_err();
    assert!(refused.contains("'deny.static.k8s.io' denied request: not by a file"), "{refused}");
    let hooks = |name: &str| {
        json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": name } })
    };
    const GROUP: &str = "admissionregistration.k8s.io";
    let refused = create(GROUP, "validatingwebhookconfigurations", "", hooks("bad")).await.unwrap_err();
    assert!(refused.contains("not by a file"), "{refused}");
    create(GROUP, "validatingwebhookconfigurations", "", hooks("good")).await.unwrap();
    let reserved = create(GROUP, "validatingwebhookconfigurations", "", hooks("a.static.k8s.io")).await;
    assert!(reserved.unwrap_err().contains("are reserved for static manifest-based configurations"));
    fs::remove_file(policies.join("deny.yaml")).unwrap();
    // The files are looked at again within a second or two.
    let followed = async {
        while create("", "configmaps", "default", map("bad")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), followed).await.expect("the files are followed");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_runs_the_plugins_of_its_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admission.yaml");
    let text = format!(
        "{HEAD}plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {{enforce: baseline}}
    exemptions: {{namespaces: [free]}}
- name: EventRateLimit
  configuration: {{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{{type: User, qps: 1, burst: 1}}]}}
"
    );
    fs::write(&file, text).unwrap();
    let shown = file.display();
    let line = format!(
        "kstore-server --in-memory --listen 127.0.0.1:0 --components apiserver --disable-admission-plugins Priority \
         --enable-admission-plugins NamespaceAutoProvision,EventRateLimit --admission-control-config-file {shown}"
    );
    let config = Cli::try_parse_from(line.split_whitespace()).unwrap().serve.into_config().unwrap();
    let cluster = wiring::start(&config).await.unwrap();
    let client = cluster.client().unwrap();
    let create = async |plural: &'static str, namespace: &str, object: Value| {
        let created = client.dynamic(Gvr::new("", "v1", plural)).create(namespace, &object).await;
        created.map_err(|error| error.to_string())
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "hostNetwork": true, "containers": [{ "name": "c", "image": "i" }] } });
    let admitted = create("pods", "free", pod.clone()).await.unwrap();
    assert!(admitted["spec"]["priority"].is_null(), "{admitted}");
    let refused = create("pods", "held", pod).await.unwrap_err();
    assert!(refused.contains("violates PodSecurity \"baseline:latest\": host namespaces"), "{refused}");
    let mut limited = None;
    for at in 0..20 {
        let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": format!("e{at}") },
            "involvedObject": { "kind": "Pod", "namespace": "events", "name": "p" } });
        limited = limited.or(create("events", "events", event).await.err());
    }
    let limited = limited.expect("20 events take less than 19 seconds");
    assert!(limited.contains("limit reached on type User for key "), "{limited}");
    cluster.stop().await;
}
