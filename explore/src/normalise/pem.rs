//! N7: certificates and keys in PEM. They are made anew in each run: certificates are compared by kind, subject, issuer and names, keys by
//! kind.

use serde_json::{Value, json};
use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

/// The blocks of a PEM text; `None` if it has none.
pub(super) fn blocks(text: &str) -> Option<Vec<Value>> {
    let is_begin = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end().ends_with("-----");
    if !text.lines().any(is_begin) {
        return None;
    }
    let blocks = Pem::iter_from_buffer(text.as_bytes()).map_while(Result::ok);
    let blocks: Vec<Value> = blocks.map(|block| described(&block)).collect();
    (!blocks.is_empty()).then_some(blocks)
}

fn described(block: &Pem) -> Value {
    let mut value = json!({"kind": block.label});
    let Ok(certificate) = block.parse_x509() else { return value };
    if block.label != "CERTIFICATE" {
        return value;
    }
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let mut names: Vec<String> = names.filter_map(name).collect();
    names.sort();
    value["subject"] = json!(certificate.subject().to_string());
    value["issuer"] = json!(certificate.issuer().to_string());
    value["names"] = json!(names);
    value
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
            Some((*name).to_owned())
        }
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let sixteen = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            four.or(sixteen).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn certificates_are_compared_by_subject_issuer_and_names_and_keys_by_kind() {
        let made = || {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["b.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
            format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        let (first, second) = (made(), made());
        assert_ne!(first, second);
        let blocks = blocks(&first).unwrap();
        assert_eq!(Some(blocks.clone()), super::blocks(&second));
        assert_eq!(blocks[0]["names"], json!(["10.0.0.1", "b.example"]));
        assert_eq!(blocks[0]["subject"], blocks[0]["issuer"]);
        assert_eq!(blocks[1], json!({"kind": "PRIVATE KEY"}));
        assert_eq!(super::blocks("no PEM"), None);
    }
}
