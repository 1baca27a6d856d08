//! Writes kubeconfigs with a client certificate. `user` holds the command `kubeconfig`, which makes one for a
//! person; `wiring` writes those of the components. The crate `client` reads them.

pub(crate) mod user;

use crate::pki::Credential;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// How clients reach a server.
pub(crate) struct ServerAddress<'a> {
    /// `https://host:port`.
    pub url: &'a str,
    /// The authority of the server's certificate; `None`: those that the client's machine trusts.
    pub ca_pem: Option<&'a [u8]>,
    /// The name in the server's certificate, if it differs from the host.
    pub tls_server_name: Option<&'a str>,
}

/// The YAML of a kubeconfig for one user of one cluster. It embeds the certificates, so the file can be
/// copied anywhere.
///
/// # Errors
/// None in practice: the values are text.
pub(crate) fn render(
    server: &ServerAddress<'_>,
    user: &str,
    credential: &Credential,
) -> anyhow::Result<String> {
    let mut cluster = json!({ "server": server.url });
    if let Some(ca) = server.ca_pem {
        cluster["certificate-authority-data"] = STANDARD.encode(ca).into();
    }
    if let Some(name) = server.tls_server_name {
        cluster["tls-server-name"] = name.into();
    }
    let identity = json!({
        "client-certificate-data": STANDARD.encode(&credential.certificate_pem),
        "client-key-data": STANDARD.encode(&credential.key_pem),
    });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kstore",
        "clusters": [{ "name": "kstore", "cluster": cluster }],
        "users": [{ "name": user, "user": identity }],
        "contexts": [{ "name": "kstore", "context": { "cluster": "kstore", "user": user } }],
    });
    Ok(serde_yaml_ng::to_string(&kubeconfig)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_kubeconfig_is_yaml_with_everything_inside() {
        let credential = Credential { certificate_pem: "cert".into(), key_pem: "key".into() };
        let user = "system:kube-scheduler \"#1\"";
        let server =
            ServerAddress { url: "https://[::1]:6443", ca_pem: Some(b"ca"), tls_server_name: Some("name") };
        let value: Value = serde_yaml_ng::from_str(&render(&server, user, &credential).unwrap()).unwrap();
        assert_eq!(value["current-context"], "kstore");
        let cluster = json!({
            "server": "https://[::1]:6443", "certificate-authority-data": STANDARD.encode("ca"), "tls-server-name": "name",
        });
        assert_eq!(value["clusters"][0]["cluster"], cluster);
        let identity = json!({ "client-certificate-data": STANDARD.encode("cert"), "client-key-data": STANDARD.encode("key") });
        assert_eq!(value["users"][0], json!({ "name": user, "user": identity }));
        assert_eq!(value["contexts"][0]["context"]["user"], user);
    }
}
