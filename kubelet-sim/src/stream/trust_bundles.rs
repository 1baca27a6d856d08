//! Trust anchors in projected volumes: the certificates of one ClusterTrustBundle, or of the bundles of a signer.

use super::Streams;
use crate::pod_certificate::certificate_pem;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use kstore_api::json::value_of;
use kstore_api::object::text;
use kstore_api::selector::label::Selector;
use kstore_api::validate::trust_bundle;
use kstore_api::version::Minor;
use kstore_client::{Gvr, ListParams};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// ClusterTrustBundles in the version that an API server of a Kubernetes version serves.
pub(crate) fn trust_bundles_of(minor: Minor) -> Gvr {
    let version = if minor >= Minor::V37 { "v1" } else { "v1beta1" };
    Gvr::new("certificates.k8s.io", version, "clustertrustbundles")
}

impl Streams {
    /// The file with the trust anchors of a projection (PEM); `None` if the bundle cannot be read.
    pub(super) async fn trust_anchors(&self, source: &ClusterTrustBundleProjection) -> Option<String> {
        let api = self.client.dynamic(trust_bundles_of(self.minor));
        if let Some(name) = &source.name {
            let bundle = api.get("", name).await.ok()?;
            return Some(anchors([pem(&bundle)]));
        }
        let signer = source.signer_name.as_deref().unwrap_or_default();
        let of_signer = ListParams::default().fields(&format!("spec.signerName={signer}"));
        let (bundles, _) = api.list("", &of_signer).await.ok()?;
        // Without a selector no bundle matches; an empty selector matches all.
        let selector = value_of(&source.label_selector).ok()?;
        let selector = Selector::from_object(&selector).ok()?;
        let labels = |bundle: &Value| -> BTreeMap<String, String> {
            let labels = bundle["metadata"]["labels"].as_object().into_iter().flatten();
            labels.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
        };
        let chosen = bundles.iter().filter(|bundle| selector.matches(&labels(bundle)));
        Some(anchors(chosen.map(pem)))
    }
}

/// The certificates of a bundle.
fn pem(bundle: &Value) -> &str {
    text(&bundle["spec"]["trustBundle"])
}

/// The certificates of several bundles, each once, without the text around them.
fn anchors<'b>(bundles: impl IntoIterator<Item = &'b str>) -> String {
    let certificates = bundles.into_iter().flat_map(trust_bundle::certificates).map(|(_, der)| der);
    let certificates: BTreeSet<Vec<u8>> = certificates.collect();
    certificates.iter().map(|der| certificate_pem(der)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(contents: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{contents}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn anchors_are_written_once_and_without_other_text() {
        let (one, two) = (certificate("AAAA"), certificate("BBBB"));
        let first = format!("a comment\n{two}{one}");
        assert_eq!(anchors([first.as_str(), one.as_str()]), format!("{one}{two}"));
        assert_eq!(anchors([]), "");
        let long = anchors([certificate(&"A".repeat(100)).as_str()]);
        assert_eq!(long.lines().map(str::len).collect::<Vec<_>>(), [27, 64, 36, 25]);
    }
}
