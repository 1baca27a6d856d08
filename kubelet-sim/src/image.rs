//! Images: pull policy, the images of a node, and the names and errors of registries. Pure; no registry is
//! contacted.

use crate::behavior::PullError;
use crate::pod_object::{ContainerSpec, PullPolicy};
use std::collections::BTreeMap;

/// The decision about a container's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Use the image on the node.
    UsePresent,
    /// Pull the image.
    Pull,
    /// Fail: the node lacks the image and may not pull it.
    Refuse,
}

/// Decides by the pull policy and whether the node has the image.
pub fn decide(policy: PullPolicy, present: bool) -> Decision {
    match (policy, present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => Decision::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, true) => Decision::UsePresent,
        (PullPolicy::Never, false) => Decision::Refuse,
    }
}

/// The pull policy of a container. The default is `Always` for the tag `latest` or no tag, otherwise
/// `IfNotPresent`.
pub fn policy(spec: &ContainerSpec) -> PullPolicy {
    spec.image_pull_policy.unwrap_or_else(|| {
        if full_name(&spec.image).ends_with(":latest") {
            PullPolicy::Always
        } else {
            PullPolicy::IfNotPresent
        }
    })
}

/// The images on one node, with their sizes.
#[derive(Clone, Debug, Default)]
pub struct Cache(BTreeMap<String, u64>);

impl Cache {
    /// Whether the node has `image`.
    pub fn has(&self, image: &str) -> bool {
        self.0.contains_key(&full_name(image))
    }

    /// Adds `image` to the node.
    pub fn add(&mut self, image: &str) {
        self.0.insert(full_name(image), size(image));
    }

    /// Adds an image of this full name and size.
    pub(crate) fn add_sized(&mut self, full_name: String, size: u64) {
        self.0.insert(full_name, size);
    }

    /// Removes the image of this full name.
    pub(crate) fn remove(&mut self, full_name: &str) {
        self.0.remove(full_name);
    }

    /// Full names and sizes, largest first, then by name.
    pub fn by_size(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        all.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        all
    }
}

/// The name with registry, repository and tag: `nginx` is `docker.io/library/nginx:latest`.
pub fn full_name(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let has_registry = image.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let prefix = match (has_registry, image.contains('/')) {
        (true, _) => "",
        (false, true) => "docker.io/",
        (false, false) => "docker.io/library/",
    };
    let last = image.rsplit('/').next().unwrap_or_default();
    let suffix = if last.contains([':', '@']) { "" } else { ":latest" };
    format!("{prefix}{image}{suffix}")
}

/// The digest reference of an image: its repository with a digest derived from its full name.
pub fn digest_reference(image: &str) -> String {
    let full = full_name(image);
    if full.contains('@') {
        return full;
    }
    let repository = full.rsplit_once(':').map_or(full.as_str(), |(repository, _)| repository);
    format!("{repository}@sha256:{}", hex64(&[&full]))
}

/// The size of an image in bytes, derived from its name: 20 to 220 MB.
pub fn size(image: &str) -> u64 {
    20_000_000 + hash(0, &[&full_name(image)]) % 200_000_000
}

/// The error of a failed pull, as container runtimes word it.
pub fn error_text(image: &str, error: PullError) -> String {
    let name = full_name(image);
    let resolve =
        format!("failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\"");
    match error {
        PullError::NotFound => format!("rpc error: code = NotFound desc = {resolve}: {name}: not found"),
        PullError::Unauthorized => format!(
            "rpc error: code = Unknown desc = {resolve}: pull access denied, repository does not exist or may require authorization"
        ),
        PullError::RateLimit => {
            format!("rpc error: code = Unknown desc = {resolve}: unexpected status: 429 Too Many Requests")
        }
        PullError::Unavailable => {
            format!("rpc error: code = Unknown desc = {resolve}: dial tcp: i/o timeout")
        }
    }
}

/// The error of a pull of an image that is mapped to a program of this machine which is not there, for this reason.
pub fn unmapped_text(image: &str, why: &str) -> String {
    format!("failed to pull and unpack image \"{}\": {why}", full_name(image))
}

/// 64 hexadecimal digits derived from `parts`.
pub(crate) fn hex64(parts: &[&str]) -> String {
    (0..4).map(|lane| format!("{:016x}", hash(lane, parts))).collect()
}

/// FNV-1a over `parts`, each terminated by a byte that does not occur in UTF-8, then mixed.
pub(crate) fn hash(seed: u64, parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xFF]));
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 32)
}

/// Registries whose names end so do not exist: the domain is reserved for that.
const NO_REGISTRY: &str = ".invalid";

/// The host of a registry that does not exist; `None` if the image may exist.
pub fn missing_registry(image: &str) -> Option<String> {
    let full = full_name(image);
    let host = full.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    host.ends_with(NO_REGISTRY).then(|| host.to_owned())
}

/// The error of a pull from a registry that does not exist.
pub fn no_registry_text(image: &str, host: &str) -> String {
    let name = full_name(image);
    format!(
        "rpc error: code = Unknown desc = failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": \
         failed to do request: dial tcp: lookup {host}: no such host"
    )
}

/// Whether an image is one of those that a pattern stands for; see `Config::missing_images`.
pub fn matches(pattern: &str, image: &str) -> bool {
    glob(pattern.as_bytes(), image.as_bytes()) || glob(pattern.as_bytes(), full_name(image).as_bytes())
}

/// Whether `text` matches `pattern`, in which `*` is any text and `?` one byte. Takes at most the product of the lengths.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The place after the last star, and the text that it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => (p, t) = (p + 1, t + 1),
            Some(_) | None => {
                let Some((after, taken)) = star else { return false };
                (p, t) = (after, taken + 1);
                star = Some((after, taken + 1));
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether the image is `pause`, of any registry and version: its program waits for ever.
pub fn is_pause(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next() == Some("pause")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_images_as_written_and_in_full() {
        for (pattern, image, expected) in [
            ("nginx:9", "nginx:9", true),
            ("nginx:9", "nginx:90", false),
            ("nginx", "nginx:9", false),
            ("nginx", "nginx", true),
            ("docker.io/library/*", "nginx:9", true),
            ("*.example.com/*:broken*", "r.example.com/a/b:broken-2", true),
            ("*.example.com/*:broken*", "r.example.com/a/b:fine", false),
            ("app:v?", "app:v1", true),
            ("app:v?", "app:v10", false),
            ("*", "anything", true),
            ("**a*b", "xxaxxab", true),
            ("**a*b", "xxaxxac", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, image), expected, "{pattern} {image}");
        }
    }

    #[test]
    fn the_pause_image_is_known_in_any_registry_and_version() {
        for (image, expected) in [
            ("pause", true),
            ("registry.k8s.io/pause:3.10", true),
            ("localhost:5000/pause@sha256:00", true),
            ("registry.k8s.io/pause/other:1", false),
            ("example.com/app-pause:1", false),
        ] {
            assert_eq!(is_pause(image), expected, "{image}");
        }
    }

    #[test]
    fn short_names_are_completed_as_container_runtimes_do() {
        let cases = [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("me/app", "docker.io/me/app:latest"),
            ("localhost:5000/app:v1", "localhost:5000/app:v1"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("a.io/b@sha256:00", "a.io/b@sha256:00"),
        ];
        for (short, full) in cases {
            assert_eq!(full_name(short), full);
        }
        assert!(digest_reference("nginx").starts_with("docker.io/library/nginx@sha256:"));
        assert_eq!(digest_reference("nginx").len(), "docker.io/library/nginx@sha256:".len() + 64);
    }

    #[test]
    fn the_policy_decides_on_pulling() {
        use Decision::{Pull, Refuse, UsePresent};
        let cases = [
            ("nginx", None, [Pull, Pull]),
            ("nginx:1", None, [Pull, UsePresent]),
            ("nginx", Some(PullPolicy::Never), [Refuse, UsePresent]),
            ("nginx:1", Some(PullPolicy::Always), [Pull, Pull]),
        ];
        for (image, image_pull_policy, expected) in cases {
            let spec =
                ContainerSpec { image: image.to_owned(), image_pull_policy, ..ContainerSpec::default() };
            assert_eq!([false, true].map(|present| decide(policy(&spec), present)), expected, "{image}");
        }
    }
}
