//! Pods whose images a webhook refuses.

use super::provisioned::{configured, create, pipeline};
use kstore_registry::outbound::Remote;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use serde_json::json;

/// A server that allows all images but `evil`.
async fn server() -> TestServer {
    TestServer::start(|received| {
        let containers = received.json()["spec"]["containers"].clone();
        let is_evil = containers.as_array().unwrap().iter().any(|one| one["image"] == "evil");
        let reason = if is_evil { "evil images are evil" } else { "" };
        let status = json!({ "allowed": !is_evil, "reason": reason, "auditAnnotations": { "scan": "done" } });
        Reply::json(
            &json!({ "apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": status }),
        )
    })
    .await
}

#[tokio::test]
async fn pods_with_refused_images_are_not_stored() {
    let server = server().await;
    let document = json!({ "imagePolicy": { "kubeConfigFile": "k", "retryBackoff": 1 } });
    let remote = Remote::new(&server.config()).unwrap();
    let configured = configured("ImagePolicyWebhook", document, Some(&remote));
    let guarded = pipeline(["ImagePolicyWebhook"], configured).await;
    let spec = |image: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "p-" },
            "spec": { "containers": [{ "name": "c", "image": image }] },
        })
    };
    let created = create(&guarded, &spec("good"), ("default", false)).await;
    assert_eq!(created.map_err(|status| status.message), Ok(()));
    let refused = create(&guarded, &spec("evil"), ("default", false)).await.unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.ends_with("denied one or more images: evil images are evil"), "{refused}");
    assert_eq!(server.count(), 2);
}
