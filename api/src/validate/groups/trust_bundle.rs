//! Validation of trust bundles: the name, which begins with the signer's name, and the PEM blocks. The apiserver
//! checks the contents of the blocks, since this crate has no cryptography.
//!
//! Follows `ValidateClusterTrustBundle`.

use super::certificates::{pem, signer_name};
use crate::check::{IMMUTABLE, grammar};
use crate::field::{ErrorList, Path};
use crate::limits::TRUST_BUNDLE_MAX;
use crate::name::{self, Faults};
use crate::object::text;
use serde_json::Value;
use std::collections::BTreeMap;

const METADATA: Path<'static> = Path::new("metadata");
const SIGNER: Path<'static> = Path::new("spec.signerName");
const BUNDLE: Path<'static> = Path::new("spec.trustBundle");
/// The value that errors show instead of a bundle.
const OMITTED: &str = "<value omitted>";
const CERTIFICATE: &str = "CERTIFICATE";

pub(crate) fn content(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let signer = text(&object["spec"]["signerName"]);
    let own = text(&object["metadata"]["name"]);
    if !own.is_empty() {
        grammar(errors, &METADATA.child("name"), own, name_faults(signer, own));
    }
    if !signer.is_empty() {
        signer_name(errors, &SIGNER, signer);
    }
    let bundle = &object["spec"]["trustBundle"];
    if old.is_none_or(|old| old["spec"]["trustBundle"] != *bundle) {
        anchors(errors, text(bundle));
    }
}

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let signer = |object: &Value| text(&object["spec"]["signerName"]).to_owned();
    if signer(new) != signer(old) {
        errors.invalid(&SIGNER, &signer(new), IMMUTABLE);
    }
}

/// Faults of the name of a bundle of this signer; empty stands for no signer.
pub(crate) fn name_faults(signer: &str, own: &str) -> Faults {
    if signer.is_empty() {
        return match own.contains(':') {
            true => vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()],
            false => name::dns1123_subdomain(own),
        };
    }
    let prefix = name_prefix(signer);
    match own.strip_prefix(&prefix) {
        Some(rest) => name::dns1123_subdomain(rest),
        None => {
            vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")]
        }
    }
}

/// Faults of the name of a bundle, whose signer the name itself says.
pub(crate) fn reference_faults(own: &str) -> Faults {
    let signer = own.rsplit_once(':').map_or("", |(signer, _)| signer).replace(':', "/");
    name_faults(&signer, own)
}

/// What the names of all bundles of a signer begin with.
#[must_use]
pub fn name_prefix(signer: &str) -> String {
    format!("{}:", signer.replace('/', ":"))
}

/// Certificates (DER) of a bundle with their positions among its PEM blocks, without those that are refused for
/// their type or their headers.
pub fn certificates(bundle: &str) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let all = pem::blocks(bundle).enumerate();
    let good = all.filter(|(_, block)| block.label == CERTIFICATE && !block.has_headers);
    good.map(|(index, block)| (index, block.contents))
}

fn anchors(errors: &mut ErrorList, bundle: &str) {
    if bundle.len() > TRUST_BUNDLE_MAX {
        errors.too_long(&BUNDLE, TRUST_BUNDLE_MAX);
        return;
    }
    let (mut seen, mut has_faults) = (BTreeMap::<Vec<u8>, Vec<usize>>::new(), false);
    for (index, block) in pem::blocks(bundle).enumerate() {
        let fault = match (block.label, block.has_headers) {
            (CERTIFICATE, false) => {
                seen.entry(block.contents).or_default().push(index);
                continue;
            }
            (CERTIFICATE, true) => format!("entry {index} has PEM block headers"),
            (label, _) => format!("entry {index} has bad block type: {label}"),
        };
        has_faults = true;
        errors.invalid(&BUNDLE, OMITTED, fault);
    }
    if has_faults {
        return;
    }
    if seen.is_empty() {
        errors.invalid(&BUNDLE, OMITTED, "at least one trust anchor must be provided");
    }
    for indices in seen.values().filter(|indices| indices.len() > 1) {
        let indices = indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        errors.invalid(&BUNDLE, OMITTED, format!("duplicate trust anchor (indices [{indices}])"));
    }
}
