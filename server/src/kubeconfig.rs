//! Writes kubeconfigs for the users that `pki` certifies. The crate `client` reads them.

use crate::pki::Credential;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;

/// The YAML of a kubeconfig for one user of one cluster. It embeds the certificates, so the file can be
/// copied anywhere.
pub(crate) fn render(server: SocketAddr, ca_pem: &str, user: &str, credential: &Credential) -> String {
    let ca = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&credential.certificate_pem);
    let key = STANDARD.encode(&credential.key_pem);
    // Written by hand: every value is base64, an address or a name without special characters.
    format!(
        "apiVersion: v1
kind: Config
current-context: kstore
clusters:
- name: kstore
  cluster:
    server: https://{server}
    certificate-authority-data: {ca}
users:
- name: {user:?}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kstore
  context:
    cluster: kstore
    user: {user:?}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_kubeconfig_is_yaml_with_everything_inside() {
        let credential = Credential { certificate_pem: "cert".into(), key_pem: "key".into() };
        let text = render("[::1]:6443".parse().unwrap(), "ca", "system:kube-scheduler", &credential);
        let value: Value = serde_yaml_ng::from_str(&text).unwrap();
        assert_eq!(value["current-context"], "kstore");
        assert_eq!(value["clusters"][0]["cluster"]["server"], "https://[::1]:6443");
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], STANDARD.encode("ca"));
        let user = json!({ "client-certificate-data": STANDARD.encode("cert"), "client-key-data": STANDARD.encode("key") });
        assert_eq!(value["users"][0], json!({ "name": "system:kube-scheduler", "user": user }));
        assert_eq!(value["contexts"][0]["context"]["user"], "system:kube-scheduler");
    }
}
