//! Requests to the REST front end of an apiserver without other components: create, GET, a page of LIST, patch.

use super::rest::Rest;
use super::virtual_time::{SEED, in_virtual_time};
use crate::limits::VALUE_BYTES;
use crate::pods::{self, PODS};
use crate::writes::CONFIG_MAPS;
use anyhow::ensure;
use kstore_testing::Cluster;
use serde_json::{Value, json};

/// Pods of one page.
const PAGE: usize = 500;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// An apiserver alone; it runs until the process ends.
pub(super) async fn api_alone() -> (Cluster, Rest) {
    let cluster = Cluster::builder().api_only().virtual_time(SEED).start().await;
    let rest = Rest::new(cluster.service());
    (cluster, rest)
}

/// A ConfigMap with 1 KiB of data.
pub(super) fn config_map(name: &str) -> String {
    let data = json!({"value": "x".repeat(VALUE_BYTES)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

/// POST of a ConfigMap with 1 KiB of data.
pub(super) fn create(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let (_cluster, rest) = api_alone().await;
        for number in 0..times {
            rest.create(CONFIG_MAPS, config_map(&format!("map-{number:05}"))).await?;
        }
        Ok(())
    })
}

/// GET of a pod.
pub(super) fn get(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let (_cluster, rest) = api_alone().await;
        rest.create(PODS, pods::pod(0)).await?;
        let path = format!("{PODS}/{}", pods::name(0));
        for _ in 0..times {
            let pod = rest.get(&path).await?;
            ensure!(pod.len() > 1_000, "a whole pod");
        }
        Ok(())
    })
}

/// GET of the first 500 pods of 600.
pub(super) fn list_page(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let (_cluster, rest) = api_alone().await;
        for number in 0..PAGE + 100 {
            rest.create(PODS, pods::pod(number)).await?;
        }
        for _ in 0..times {
            let page = rest.get(&format!("{PODS}?limit={PAGE}")).await?;
            ensure!(page.len() > PAGE * 1_000, "a whole page");
        }
        Ok(())
    })
}

/// Strategic merge patch of a Deployment: another image for one container of two.
pub(super) fn patch(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let (_cluster, rest) = api_alone().await;
        rest.create(DEPLOYMENTS, deployment().to_string()).await?;
        let path = format!("{DEPLOYMENTS}/web");
        for number in 0..times {
            let container =
                json!({"name": "web", "image": format!("registry.example.com/team/web:v{number:05}")});
            let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
            rest.call("PATCH", &path, "application/strategic-merge-patch+json", patch.to_string()).await?;
        }
        Ok(())
    })
}

fn deployment() -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example.com/team/web:v1.14.2", "ports": [{"containerPort": 8080}],
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": probe, "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}})
    };
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [container("web"), container("proxy")]}}}})
}
