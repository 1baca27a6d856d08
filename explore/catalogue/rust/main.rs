//! Operators of the catalogue on kube-rs: the first argument is the name of a bug, and `--fixed` runs its repaired twin.

/// kubernetes-sigs/cluster-api#13649.
mod b7;

use kube_client::Client;
use kube_client::api::{Api, ApiResource, DynamicObject};
use kube_client::core::GroupVersionKind;
use std::process::ExitCode;

/// What an operator cannot do now.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Refused(#[from] kube_client::Error),
    #[error("{0}")]
    Unusable(String),
}

/// The type of Things, which no program knows at compile time.
fn thing_type() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"))
}

fn things(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &thing_type())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_fixed = arguments.iter().any(|argument| argument == "--fixed");
    let client = Client::try_default().await.expect("KUBECONFIG names a cluster");
    match arguments.first().map(String::as_str) {
        Some("b7") => b7::run(client, is_fixed).await,
        _ => {
            eprintln!("the first argument is the name of a bug: b7");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
