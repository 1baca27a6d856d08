//! The documents of an image: which layers it has, and what its containers run.

use super::source::{INDEX, ImageSource, SAVED};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::io::{Error, Result};

/// How deep indexes of images for several platforms are in each other.
const DEPTH: usize = 4;

/// What the containers of an image run unless their pods say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Its further arguments, or the command without an entrypoint.
    pub command: Vec<String>,
    /// Variables.
    pub env: Vec<(String, String)>,
    /// The working directory; empty for the root.
    pub workdir: String,
    /// The user, and after `:` the group, by names or numbers; empty for root.
    pub user: String,
}

impl ImageConfig {
    /// The command line of a container, as Kubernetes has it: its `command` replaces the image's entrypoint and arguments, `args` alone
    /// replace the arguments.
    pub(crate) fn command_line(&self, command: &[String], args: &[String]) -> Vec<String> {
        let (first, rest) = match (command, args) {
            ([], []) => (self.entrypoint.as_slice(), self.command.as_slice()),
            ([], args) => (self.entrypoint.as_slice(), args),
            (command, args) => (command, args),
        };
        first.iter().chain(rest).cloned().collect()
    }

    /// The environment of a container: its own variables replace those of the image. `env` has the variables that the kubelet passes; for
    /// the names for which `is_own` is true the container's manifest sets them.
    pub fn variables(
        &self,
        env: &[(String, String)],
        is_own: impl Fn(&str) -> bool,
    ) -> Vec<(String, String)> {
        let mut all = env.to_vec();
        for (name, value) in &self.env {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((known, _)) if is_own(known) => {}
                Some((_, known)) => known.clone_from(value),
                None => all.push((name.clone(), value.clone())),
            }
        }
        all
    }
}

/// A layer of an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// Its file.
    pub(super) name: String,
    /// The digest of its files, uncompressed: `sha256:…`.
    pub(super) digest: String,
}

/// An image: its layers, the lowest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// The hexadecimal digest of its configuration, which names all of its layers.
    pub(super) digest: String,
    pub(super) layers: Vec<Layer>,
    pub(super) config: ImageConfig,
}

/// A list of images, or an image.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
}

/// A reference to a document or a layer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

/// What an image is made for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Platform {
    os: String,
    architecture: String,
}

/// An image in the list of an archive of `docker save`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    layers: Vec<String>,
    repo_tags: Option<Vec<String>>,
}

/// The configuration of an image.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigDocument {
    config: Option<RunDocument>,
    rootfs: RootDocument,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RootDocument {
    diff_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RunDocument {
    user: String,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: String,
}

/// Reads which layers the image of a source has, and what it runs. Its documents have the digests by which they are named.
///
/// # Errors
/// It is none, or several.
pub(super) fn read(source: &ImageSource) -> Result<Image> {
    // Newer archives of `docker save` are layouts as well; its own list names the image alone.
    if source.has(SAVED) {
        return read_saved(source);
    }
    if !source.has(INDEX) {
        return Err(Error::other(format!(
            "it is no image: it has neither {INDEX} (a layout) nor {SAVED} (docker save)"
        )));
    }
    let mut manifest: Manifest = parse(INDEX, &source.document(INDEX)?)?;
    for _ in 0..DEPTH {
        if let Some(config) = &manifest.config {
            let names =
                manifest.layers.iter().map(|layer| blob(&layer.digest)).collect::<Result<Vec<_>>>()?;
            let (digest, text) = verified(source, &config.digest)?;
            return image(digest, &text, names);
        }
        let chosen = choose(&manifest.manifests)?;
        let (_, text) = verified(source, &chosen.digest)?;
        manifest = parse(&chosen.digest, &text)?;
    }
    Err(Error::other("its lists of images are too deep in each other"))
}

/// The image of an archive of `docker save`.
fn read_saved(source: &ImageSource) -> Result<Image> {
    let images: Vec<SavedImage> = parse(SAVED, &source.document(SAVED)?)?;
    match images.as_slice() {
        [] => Err(Error::other("it has no image")),
        [saved] => {
            let text = source.document(&saved.config)?;
            image(hex(&text), &text, saved.layers.clone())
        }
        several => {
            let tags = several.iter().flat_map(|image| image.repo_tags.as_deref().unwrap_or_default());
            let tags: Vec<_> = tags.map(String::as_str).collect();
            Err(Error::other(format!("it has several images ({}): save one alone", tags.join(", "))))
        }
    }
}

/// The image of a list that is for this machine.
fn choose(manifests: &[Descriptor]) -> Result<Descriptor> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_here = |descriptor: &&Descriptor| {
        let platform = descriptor.platform.as_ref();
        platform.is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture)
    };
    let mut here = manifests.iter().filter(is_here);
    match (here.next(), here.next()) {
        (Some(one), None) => Ok(one.clone()),
        (None, _) => Err(Error::other(format!("it has no image for linux/{architecture}"))),
        (Some(_), Some(_)) => Err(Error::other("it has several images: name a layout or an archive of one")),
    }
}

/// The image with this configuration and the files of its layers.
fn image(digest: String, text: &[u8], names: Vec<String>) -> Result<Image> {
    let document: ConfigDocument = parse("its configuration", text)?;
    let digests = document.rootfs.diff_ids;
    if digests.len() != names.len() {
        return Err(Error::other(format!(
            "its configuration names {} layers, and it has {}",
            digests.len(),
            names.len()
        )));
    }
    let layers = names.into_iter().zip(digests).map(|(name, digest)| Layer { name, digest });
    let run = document.config.unwrap_or_default();
    let variable = |text: String| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let config = ImageConfig {
        entrypoint: run.entrypoint.unwrap_or_default(),
        command: run.cmd.unwrap_or_default(),
        env: run.env.into_iter().flatten().filter_map(variable).collect(),
        workdir: run.working_dir,
        user: run.user,
    };
    Ok(Image { digest, layers: layers.collect(), config })
}

/// The file of a digest in a layout.
fn blob(digest: &str) -> Result<String> {
    let hexadecimal = digest.strip_prefix("sha256:").filter(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    match hexadecimal {
        Some(hex) => Ok(format!("blobs/sha256/{hex}")),
        None => Err(Error::other(format!("{digest:?} is not a digest of SHA-256"))),
    }
}

/// The document of a digest, and the digest in hexadecimal.
fn verified(source: &ImageSource, digest: &str) -> Result<(String, Vec<u8>)> {
    let text = source.document(&blob(digest)?)?;
    let own = hex(&text);
    match digest.strip_prefix("sha256:") == Some(own.as_str()) {
        true => Ok((own, text)),
        false => Err(Error::other(format!("the document {digest} has the digest sha256:{own}"))),
    }
}

fn hex(bytes: &[u8]) -> String {
    super::unpack::hex(&Sha256::digest(bytes))
}

fn parse<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| Error::other(format!("{what}: {error}")))
}
