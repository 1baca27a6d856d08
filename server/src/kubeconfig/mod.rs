//! Writes kubeconfigs with a client certificate. `user` holds the command `kubeconfig`, which makes one for a
//! person; `wiring` writes those of the components; `merge` adds one to another file. The crate `client` reads them.

mod merge;
mod path;
pub(crate) mod user;

use crate::args::CLUSTER;
use crate::pki::{self, Credential};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub(crate) use path::kubeconfig_path;
use serde_json::json;
use std::path::Path;

/// The name of a cluster in kubeconfigs, as kind forms it: `kstore-NAME` with the given name, or that of the data directory. A
/// cluster in memory without a name is `kstore`.
pub(crate) fn cluster_name(name: Option<&str>, data_dir: Option<&Path>) -> String {
    let of_dir = data_dir.and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = name.map(str::to_owned).or(of_dir.map(|name| plain(&name))).unwrap_or_default();
    let is_prefixed = name.strip_prefix(CLUSTER).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    match (name.as_str(), is_prefixed) {
        ("", _) => CLUSTER.to_owned(),
        (_, true) => name,
        (_, false) => format!("{CLUSTER}-{name}"),
    }
}

/// The name of a folder with only those characters that names in command lines need no quotes for.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    plain.trim_matches('-').to_owned()
}

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
    cluster_name: &str,
    user: &str,
    credential: &Credential,
) -> anyhow::Result<String> {
    // The administrator's entries have the cluster's name, as those of kind; two users of a cluster can be in one file.
    let context =
        if user == pki::ADMIN.user { cluster_name.to_owned() } else { format!("{user}@{cluster_name}") };
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
        "current-context": context,
        "clusters": [{ "name": cluster_name, "cluster": cluster }],
        "users": [{ "name": context, "user": identity }],
        "contexts": [{ "name": context, "context": { "cluster": cluster_name, "user": context } }],
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
        let value: Value =
            serde_yaml_ng::from_str(&render(&server, "kstore-a", user, &credential).unwrap()).unwrap();
        let name = format!("{user}@kstore-a");
        assert_eq!(value["current-context"], name);
        let cluster = json!({
            "server": "https://[::1]:6443", "certificate-authority-data": STANDARD.encode("ca"), "tls-server-name": "name",
        });
        assert_eq!(value["clusters"][0]["cluster"], cluster);
        let identity = json!({ "client-certificate-data": STANDARD.encode("cert"), "client-key-data": STANDARD.encode("key") });
        assert_eq!(value["users"][0], json!({ "name": name, "user": identity }));
        assert_eq!(value["contexts"][0]["context"], json!({ "cluster": "kstore-a", "user": name }));
        let admin = render(&server, "kstore-a", pki::ADMIN.user, &credential).unwrap();
        let admin: Value = serde_yaml_ng::from_str(&admin).unwrap();
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(admin[list][0]["name"], "kstore-a", "{list}");
        }
    }

    #[test]
    fn clusters_are_named_after_the_flag_or_their_directory() {
        let dir = |text: &'static str| Some(Path::new(text));
        for (name, data_dir, expected) in [
            (None, None, "kstore"),
            (Some("blue"), None, "kstore-blue"),
            (Some("blue"), dir("/var/lib/kstore"), "kstore-blue"),
            (Some("kstore-blue"), None, "kstore-blue"),
            (None, dir("/var/lib/kstore"), "kstore"),
            (None, dir("/home/jane/kstore-data"), "kstore-data"),
            (None, dir("/tmp/prepared"), "kstore-prepared"),
            (None, dir("/tmp/My tests (2)"), "kstore-My-tests--2"),
            (None, dir("/tmp/kstores"), "kstore-kstores"),
            (None, dir("/"), "kstore"),
        ] {
            assert_eq!(cluster_name(name, data_dir), expected, "{name:?} {data_dir:?}");
        }
    }
}
