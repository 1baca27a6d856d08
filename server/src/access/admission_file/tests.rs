//! Files that are used, files that are not, and a server with the flags.

use super::*;
use crate::args::Cli;
use crate::wiring;
use kstore_admission::PluginSwitches;
use kstore_client::Gvr;
use serde_json::json;
use std::fs;

fn open(dir: &Path, text: &str, enabled: Option<&'static str>) -> Result<String, String> {
    let file = dir.join("admission.yaml");
    fs::write(&file, text).unwrap();
    let switches = PluginSwitches { enabled: enabled.into_iter().collect(), ..PluginSwitches::default() };
    let config = AdmissionConfig { switches, file: Some(file), warnings: Vec::new() };
    let opened = configured_plugins(&config, &Rng::seeded(1));
    opened.map(|configured| format!("{configured:?}")).map_err(|error| format!("{error:#}"))
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
            "kstore does not support",
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
        let refused = open(dir.path(), text, None).unwrap_err();
        assert!(refused.contains("cannot use --admission-control-config-file"), "{refused}");
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    let refused = open(dir.path(), HEAD, Some("EventRateLimit")).unwrap_err();
    assert!(refused.starts_with("admission plugin EventRateLimit is enabled and needs"), "{refused}");
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
