//! The logins of a pod's pull secrets: which of them are for the registry of an image. Pure.

use crate::image::full_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_cri::client::RegistryLogin;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The keys of a pull secret: of its present form, and of its old one.
const PRESENT: &str = ".dockerconfigjson";
const OLD: &str = ".dockercfg";
/// The names under which logins of Docker's own registry are kept.
const DOCKER: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, DockerLogin>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerLogin {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

/// The logins for an image in a secret, the most specific first.
pub(crate) fn logins(image: &str, secret: &BTreeMap<String, Vec<u8>>) -> Vec<RegistryLogin> {
    let present = secret.get(PRESENT).and_then(|text| serde_json::from_slice::<DockerConfig>(text).ok());
    let old = || serde_json::from_slice(secret.get(OLD)?).ok();
    let Some(all) = present.map(|config| config.auths).or_else(old) else { return Vec::new() };
    let name = full_name(image);
    let mut found: Vec<_> = all.into_iter().filter(|(registry, _)| is_for(registry, &name)).collect();
    found.sort_by_key(|(registry, _)| std::cmp::Reverse(registry.len()));
    found.into_iter().filter_map(|(_, login)| login.read()).collect()
}

impl DockerLogin {
    fn read(self) -> Option<RegistryLogin> {
        let (mut user, mut password) = (self.username, self.password);
        if !self.auth.is_empty() {
            let text = String::from_utf8(STANDARD.decode(&self.auth).ok()?).ok()?;
            let (of_auth, rest) = text.split_once(':')?;
            (user, password) = (of_auth.to_owned(), rest.to_owned());
        }
        Some(RegistryLogin { user, password, identity_token: self.identitytoken })
    }
}

/// Whether the login of `registry`, which may be a URL with a path and stars in its host, is for the image with this full name.
fn is_for(registry: &str, name: &str) -> bool {
    let registry = registry.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = registry.split_once('/').unwrap_or((registry, ""));
    let path = path.trim_end_matches('/');
    let path = if matches!(path, "v1" | "v2") { "" } else { path };
    let (own, rest) = name.split_once('/').unwrap_or((name, ""));
    let is_docker = DOCKER.contains(&host) && DOCKER.contains(&own);
    let (wanted, given): (Vec<_>, Vec<_>) = (host.split('.').collect(), own.split('.').collect());
    let is_part = |(wanted, given): (&&str, &&str)| crate::image::matches(wanted, given);
    let is_host = is_docker || (wanted.len() == given.len() && wanted.iter().zip(&given).all(is_part));
    is_host
        && (path.is_empty() || rest.strip_prefix(path).is_some_and(|rest| rest.starts_with(['/', ':', '@'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_for_the_images_of_its_registry() {
        for (registry, image, expected) in [
            ("https://index.docker.io/v1/", "nginx", true),
            ("docker.io", "library/nginx:1", true),
            ("registry.example.com", "registry.example.com/a/b:1", true),
            ("https://registry.example.com/v2/", "registry.example.com/a", true),
            ("registry.example.com/a", "registry.example.com/a/b", true),
            ("registry.example.com/a", "registry.example.com/ab", false),
            ("*.example.com", "registry.example.com/a", true),
            ("*.example.com", "x.registry.example.com/a", false),
            ("registry.example.com", "nginx", false),
            ("registry.example.com:5000", "registry.example.com/a", false),
        ] {
            assert_eq!(is_for(registry, &full_name(image)), expected, "{registry} {image}");
        }
    }

    #[test]
    fn logins_of_both_forms_are_read_and_broken_ones_left_out() {
        let of =
            |key: &str, text: &str| logins("a.io/b", &[(key.to_owned(), text.as_bytes().to_vec())].into());
        let login = |user: &str, password: &str| RegistryLogin {
            user: user.to_owned(),
            password: password.to_owned(),
            identity_token: String::new(),
        };
        // `dTpwOnE=` is `u:p:q`.
        assert_eq!(of(PRESENT, r#"{"auths": {"a.io": {"auth": "dTpwOnE="}}}"#), [login("u", "p:q")]);
        assert_eq!(of(OLD, r#"{"a.io": {"username": "u", "password": "p"}}"#), [login("u", "p")]);
        let both = r#"{"auths": {"a.io": {"username": "wide"}, "a.io/b": {"username": "own"}, "c.io": {"username": "other"}}}"#;
        assert_eq!(of(PRESENT, both), [login("own", ""), login("wide", "")]);
        for broken in
            ["", "[]", r#"{"auths": {"a.io": {"auth": "?"}}}"#, r#"{"auths": {"a.io": {"auth": "dQ=="}}}"#]
        {
            assert_eq!(of(PRESENT, broken), [], "{broken}");
        }
    }
}
