//! Plugins that refuse commands in pods.

use super::provisioned::{create, pipeline_with};
use crate::pipeline::{AdmissionConfig, Pipeline};
use kstore_admission::PluginSwitches;
use kstore_registry::lookup::core;
use kstore_registry::request::Target;
use kstore_registry::user::{MASTERS, UserInfo};
use serde_json::{Value, json};

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.iter_mut().for_each(|container| container["image"] = json!("i"));
    pod
}

async fn ask(pipeline: &Pipeline, subresource: &'static str, name: &str) -> Result<(), String> {
    let target = Target {
        resource: core("pods"),
        custom: None,
        subresource,
        namespace: "default".into(),
        name: name.into(),
    };
    let user = UserInfo::new("root", [MASTERS]);
    let options = || json!({ "apiVersion": "v1", "kind": "PodExecOptions" });
    let refused = pipeline.admit_stream(&user, &target, options).await;
    refused.map_err(|status| format!("{} {}", status.code, status.message))
}

/// A server with this plugin and these pods.
async fn server(plugin: Option<&'static str>, pods: &[(&str, Value)]) -> Pipeline {
    // ServiceAccount would need an account of the namespace.
    let without = PluginSwitches::without(["ServiceAccount"]);
    let switches = PluginSwitches { enabled: plugin.into_iter().collect(), ..without };
    let admission = AdmissionConfig { switches, ..AdmissionConfig::default() };
    let server = pipeline_with(admission).await;
    for (name, spec) in pods {
        create(&server, &pod(name, spec), ("default", false)).await.unwrap();
    }
    server
}

#[tokio::test]
async fn commands_in_pods_with_rights_on_their_node_are_refused() {
    let plain = json!({ "containers": [{ "name": "c", "securityContext": { "privileged": false } }] });
    let with = |field: &str| {
        let mut spec = plain.clone();
        spec[field] = json!(true);
        spec
    };
    let mut privileged = plain.clone();
    privileged["containers"][0]["securityContext"]["privileged"] = json!(true);
    let pods = [
        ("plain", plain.clone()),
        ("network", with("hostNetwork")),
        ("pid", with("hostPID")),
        ("ipc", with("hostIPC")),
        ("privileged", privileged),
    ];
    let server = |plugin: Option<&'static str>| Box::pin(server(plugin, &pods));
    assert_eq!(ask(&server(None).await, "exec", "privileged").await, Ok(()), "no plugin is on");
    let (escalating, on_privileged) =
        (server(Some("DenyEscalatingExec")).await, server(Some("DenyExecOnPrivileged")).await);
    let refusal = |name: &str, what: &str| {
        Err(format!("403 pods \"{name}\" is forbidden: cannot exec into or attach to {what}"))
    };
    for subresource in ["exec", "attach"] {
        for (name, what) in [
            ("network", "a container using host network"),
            ("pid", "a container using host pid"),
            ("ipc", "a container using host ipc"),
        ] {
            assert_eq!(ask(&escalating, subresource, name).await, refusal(name, what));
            assert_eq!(ask(&on_privileged, subresource, name).await, Ok(()), "{name}");
        }
        for plugin in [&escalating, &on_privileged] {
            let privileged = refusal("privileged", "a privileged container");
            assert_eq!(ask(plugin, subresource, "privileged").await, privileged);
            assert_eq!(ask(plugin, subresource, "plain").await, Ok(()));
            let missing = "403 pods \"nope\" is forbidden: pods \"nope\" not found";
            assert_eq!(ask(plugin, subresource, "nope").await, Err(missing.to_owned()));
        }
    }
    assert_eq!(ask(&escalating, "portforward", "privileged").await, Ok(()), "only exec and attach");
}
