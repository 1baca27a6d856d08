//! [`Configuration`]: a KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`) as the scheduler runs it. Pure.
//!
//! What kube-scheduler accepts is accepted with its defaults, or refused with a reason; what it refuses is refused with its texts. An
//! accepted setting that would change decisions there and changes nothing here is a [warning](Configuration::warnings).

mod build;
mod document;
mod merge;
mod order;
mod print;
mod settings;
#[cfg(test)]
mod tests;

use crate::extender::Extenders;
use crate::fields::{Fields, Problems};
use crate::limits::CONFIGURATION_BYTES;
use crate::plugins::Registry;
use crate::profile::Profiles;
use crate::queue::PodBackoff;
use jiff::SignedDuration;
use kstore_api::yaml;
use serde_json::Value;
use settings::Document;
pub use settings::{ClientConnection, LeaderElection};

/// The version of the file.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// A configuration whose plugins have read their arguments.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The profiles, in the order of the file.
    pub profiles: Profiles,
    /// The waits of pods after failed attempts.
    pub backoff: PodBackoff,
    /// The servers that take part in decisions.
    pub extenders: Extenders,
    /// How the scheduler reaches the API server.
    pub client_connection: ClientConnection,
    /// Whether and how the scheduler competes for leadership.
    pub leader_election: LeaderElection,
    /// Accepted settings without an effect, each with its path and the reason.
    pub warnings: Vec<String>,
    document: Document,
}

/// Why a file is no configuration: every reason that one step of reading finds, in kube-scheduler's words. `Display` has one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationError {
    /// The reasons, at least one.
    pub reasons: Vec<String>,
}

impl std::fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reasons.join("\n"))
    }
}

impl std::error::Error for ConfigurationError {}

impl From<String> for ConfigurationError {
    fn from(reason: String) -> Self {
        Self { reasons: vec![reason] }
    }
}

impl Configuration {
    /// Reads a file, in YAML or JSON. The plugins that profiles may enable are those of `registry`; the in-tree ones among them run by
    /// default.
    ///
    /// # Errors
    ///
    /// The file is too large, is no KubeSchedulerConfiguration of this version, breaks a rule, or asks for what this scheduler does not
    /// have.
    pub fn parse(text: &str, registry: &Registry) -> Result<Self, ConfigurationError> {
        if text.len() > CONFIGURATION_BYTES {
            return Err(format!("the file has more than {CONFIGURATION_BYTES} bytes").into());
        }
        let read = yaml::parse(text.as_bytes(), CONFIGURATION_BYTES)?;
        let mut problems = Problems { strict: read.repeated, ..Problems::default() };
        let mut file = Fields::of(read.value, "", &mut problems);
        check_kind(file.value("apiVersion"), file.value("kind"))?;
        let document = document::read(&mut file);
        file.finish();
        let profiles = build::configured(&document, registry, &mut problems);
        if let Some(error) = problems.decoding_error() {
            return Err(error.into());
        }
        if !problems.invalid.is_empty() {
            return Err(ConfigurationError { reasons: order::sorted(&problems.invalid) });
        }
        let warnings = &mut problems.warnings;
        let profiles = profiles.into_iter().map(|profile| profile.start(&document, registry, warnings));
        let profiles = profiles.collect::<Result<_, _>>()?;
        Ok(Self {
            profiles: Profiles::new(profiles),
            backoff: PodBackoff {
                initial: SignedDuration::from_secs(document.initial),
                longest: SignedDuration::from_secs(document.longest),
                ends_early: registry.gates().pop_from_backoff,
                ..PodBackoff::default()
            },
            extenders: Extenders::new(document.extenders.iter().cloned()),
            client_connection: document.client_connection.clone(),
            leader_election: document.leader_election.clone(),
            warnings: problems.warnings,
            document,
        })
    }

    /// The configuration with every default and every profile's plugins by point, as YAML. It parses to the same configuration, and prints
    /// as the same text.
    pub fn print(&self) -> String {
        yaml::encode(&print::file(self))
    }
}

/// Whether the document is of the kind and version that this module reads.
fn check_kind(version: Option<Value>, kind: Option<Value>) -> Result<(), ConfigurationError> {
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let (version, kind) = (text(version), text(kind));
    match (version.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or_default()) {
        (API_VERSION, KIND) => Ok(()),
        (_, "") => Err("Object 'Kind' is missing in the file".to_owned().into()),
        ("", _) => Err("Object 'apiVersion' is missing in the file".to_owned().into()),
        (version, kind) => {
            let note = if version == API_VERSION { "" } else { "; write kubescheduler.config.k8s.io/v1" };
            Err(format!("no kind \"{kind}\" is registered for version \"{version}\"{note}").into())
        }
    }
}
