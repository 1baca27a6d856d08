//! NamespaceAutoProvision and EventRateLimit through the pipeline.

use crate::pipeline::{AdmissionConfig, Pipeline};
use crate::racing::Racing;
use kstore_admission::{ConfigurationContext, ConfiguredPlugins, PluginSwitches};
use kstore_api::kind;
use kstore_api::status::Status;
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_registry::request::{Action, Body, Request, Target, Transaction, TransactionStep, WriteOptions};
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// One plugin with this configuration, whose server is `remote`.
pub(super) fn configured(plugin: &str, document: Value, remote: Option<&Remote>) -> ConfiguredPlugins {
    let connect = |_: &str, _: &Path| remote.cloned().ok_or_else(|| "no server".to_owned());
    let context = ConfigurationContext { connect: &connect, rng: &Rng::seeded(1), manifests: None };
    let mut configured = ConfiguredPlugins::default();
    configured.configure(plugin, document, &context).unwrap();
    configured
}

/// An API server with plugins enabled and configured.
pub(super) async fn pipeline(
    enabled: impl IntoIterator<Item = &'static str>,
    configured: ConfiguredPlugins,
) -> Pipeline {
    let switches = PluginSwitches { enabled: enabled.into_iter().collect(), ..PluginSwitches::default() };
    pipeline_with(AdmissionConfig { switches, configured }).await
}

/// An API server with this configuration of admission.
pub(super) async fn pipeline_with(admission: AdmissionConfig) -> Pipeline {
    let seed = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "seed", "namespace": "default", "uid": "u" } });
    Racing::start_with("/registry/configmaps/default/seed".to_owned(), seed, admission).await.1
}

/// Creates an object in a namespace.
pub(super) async fn create(
    pipeline: &Pipeline,
    object: &Value,
    (namespace, dry_run): (&str, bool),
) -> Result<(), Status> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let target = Target {
        resource: kind::lookup_api_version(api_version, object["kind"].as_str().unwrap()).unwrap(),
        custom: None,
        subresource: "",
        namespace: namespace.into(),
        name: String::new(),
    };
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    let request = Request {
        user: Arc::new(UserInfo::new("root", ["system:masters"])),
        agent: "test".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        group: None,
        bound: None,
        timeout: None,
        target,
        action: Action::Create(Body::json(object.to_string().into()), options),
    };
    pipeline.serve(request).await.map(drop).map_err(|refused| refused.status)
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

#[tokio::test]
async fn a_missing_namespace_is_created_with_its_first_object() {
    let provisioning = pipeline(["NamespaceAutoProvision"], ConfiguredPlugins::default()).await;
    let exists = |pipeline: &Pipeline, name: &str| {
        let key = format!("/registry/namespaces/{name}");
        pipeline.cache().get(kind::lookup("", "v1", "namespaces").unwrap(), &key).is_some()
    };
    let dry = create(&provisioning, &map("m"), ("new", true)).await.unwrap_err();
    assert_eq!((dry.code, exists(&provisioning, "new")), (404, false), "a dry run creates nothing");
    let (one, two) = (map("one"), map("two"));
    let both = tokio::join!(
        create(&provisioning, &one, ("new", false)),
        create(&provisioning, &two, ("new", false)),
    );
    assert_eq!((both.0.map_err(|s| s.message), both.1.map_err(|s| s.message)), (Ok(()), Ok(())));
    assert!(exists(&provisioning, "new"));
    let wrong = create(&provisioning, &map("m"), ("Not_a_Name", false)).await.unwrap_err();
    assert_eq!(wrong.code, 403);
    assert!(
        wrong.message.starts_with("configmaps \"m\" is forbidden: Namespace \"Not_a_Name\" is invalid"),
        "{wrong}"
    );
    let plain = pipeline([], ConfiguredPlugins::default()).await;
    assert_eq!(create(&plain, &map("m"), ("new", false)).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_transaction_creates_the_namespaces_of_its_objects_or_none() {
    let provisioning = pipeline(["NamespaceAutoProvision"], ConfiguredPlugins::default()).await;
    let namespaces = kind::lookup("", "v1", "namespaces").unwrap();
    let step = |name: &str, namespace: &str| {
        let target = Target {
            resource: kind::lookup("", "v1", "configmaps").unwrap(),
            custom: None,
            subresource: "",
            namespace: namespace.into(),
            name: String::new(),
        };
        let body = Body::json(map(name).to_string().into());
        TransactionStep::Act(target, Box::new(Action::Create(body, WriteOptions::default())))
    };
    for (second, is_stored) in [("one", false), ("two", true)] {
        let transaction = Transaction {
            user: Arc::new(UserInfo::new("root", ["system:masters"])),
            agent: "test".into(),
            causes: Vec::new(),
            fence: None,
            dry_run: false,
            timeout: None,
            steps: vec![step("one", "staged"), step(second, "staged")],
        };
        let transacted = provisioning.transact(transaction).await;
        assert_eq!(transacted.is_ok(), is_stored, "{:?}", transacted.err());
        provisioning.cache().fresh().await.unwrap();
        let stored = provisioning.cache().get(namespaces, "/registry/namespaces/staged");
        assert_eq!(stored.is_some(), is_stored);
    }
}

#[tokio::test]
async fn events_beyond_a_limit_are_answered_429() {
    let limit = json!({ "type": "Namespace", "qps": 1, "burst": 1 });
    let document = json!({ "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": [limit] });
    let limited = pipeline(["EventRateLimit"], configured("EventRateLimit", document, None)).await;
    let event = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name },
            "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" }, "type": "Normal",
        })
    };
    let mut refused = Vec::new();
    for at in 0..20 {
        refused.extend(create(&limited, &event(&format!("e{at}")), ("default", false)).await.err());
    }
    let refused = refused.pop().expect("20 events take less than 19 seconds");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (429, "Too many requests: limit reached on type Namespace for key default")
    );
    assert_eq!(create(&limited, &map("m"), ("default", false)).await.map_err(|s| s.message), Ok(()));
}
