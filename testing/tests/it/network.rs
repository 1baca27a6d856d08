//! Tests of [`Cluster::listen`] with clients over TLS, as other programs connect.

use kstore_client::{Client, Gvr, Kubeconfig};
use kstore_testing::Cluster;
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Output;

fn parse(kubeconfig: &str) -> Kubeconfig {
    Kubeconfig::parse(kubeconfig, Path::new(".")).expect("the kubeconfig is valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_over_tls_see_the_cluster_with_their_own_permissions_until_it_ends() {
    let cluster = Cluster::builder().api_only().start().await;
    let endpoint = cluster.listen().await.unwrap();
    assert_eq!(cluster.listen().await.unwrap().address(), endpoint.address());
    let admin = Client::connect(&parse(endpoint.kubeconfig()), "admin").await.unwrap();
    let config_maps = admin.dynamic(Gvr::new("", "v1", "configmaps"));
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    config_maps.create("default", &object).await.unwrap();
    let seen = cluster.client().dynamic(Gvr::new("", "v1", "configmaps")).get("default", "a").await.unwrap();
    assert_eq!(seen["metadata"]["name"], "a");

    let jane = endpoint.kubeconfig_as("jane", Some("dev")).unwrap();
    let jane = Client::connect(&parse(&jane), "jane").await.unwrap();
    let denied = jane.dynamic(Gvr::new("", "v1", "configmaps")).get("default", "a").await.unwrap_err();
    assert!(denied.is_forbidden() && denied.to_string().contains("jane"), "{denied}");

    let address = endpoint.address();
    cluster.stop().await;
    let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_with_the_kubeconfig() {
    let cluster = Cluster::builder().api_only().start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cluster.kubeconfig().await.unwrap()).unwrap();
    let kubectl = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new("kubectl");
        command.arg("--kubeconfig").arg(file.path()).args(arguments).output().await
    };
    let text = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    match kubectl(&["create", "configmap", "a", "--from-literal=key=value"]).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return eprintln!("no kubectl: not tested"),
        created => assert_eq!(text(created.unwrap()), "configmap/a created\n"),
    }
    let value = kubectl(&["get", "configmap", "a", "-o", "jsonpath={.data.key}"]).await.unwrap();
    assert_eq!(text(value), "value");
    cluster.stop().await;
}
