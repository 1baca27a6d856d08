//! [`Configuration`]: `EncryptionConfiguration` documents, parsed and validated with kube-apiserver's
//! messages. Pure. `transformer` makes providers of them.

mod document;

use super::key::{Key, NamedKey};
use super::keyring::{Cipher, Keyring};
use super::kms::KmsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use document::{WrittenKey, WrittenKms, WrittenProvider, WrittenRule};
use kstore_api::field::{ErrorList, Path};
use kstore_go_duration::parse_non_negative;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A valid encryption configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(super) rules: Vec<Rule>,
}

/// An entry of `resources`: the providers of some resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) resources: Vec<GroupResource>,
    pub(super) providers: Vec<ProviderConfig>,
}

/// A resource of an API group. Either part may be `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupResource {
    pub(super) group: String,
    pub(super) resource: String,
}

/// A provider in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProviderConfig {
    Identity,
    Local(Keyring),
    Kms(KmsConfig),
}

/// An encryption configuration was refused: the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file has no text.
    #[error(
        "error while parsing file: error while loading file: encryption provider configuration file {0:?} is empty"
    )]
    Empty(String),
    /// The text is not a document of the right type.
    #[error(
        "error while parsing file: error decoding encryption provider configuration file {file:?}: {reason}"
    )]
    Decoding {
        /// The file's name.
        file: String,
        /// The reason.
        reason: String,
    },
    /// Some fields are invalid.
    #[error("error while parsing file: {0}")]
    Invalid(String),
    /// A rule has no effect, since an earlier one covers its resource.
    #[error("error while building transformers: resource {resource:?} is masked by earlier rule {by:?}")]
    Masked {
        /// The resource, as users write it.
        resource: String,
        /// The earlier rule's resource.
        by: String,
    },
    /// A provider that this program does not have.
    #[error("error while building transformers: {0}")]
    Unsupported(&'static str),
}

const KMS_V1: &str =
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.";

impl GroupResource {
    /// Parses `resource` or `resource.group`.
    fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    fn is_everything(&self) -> bool {
        self.group == "*" && self.resource == "*"
    }

    /// All resources of the group.
    fn whole_group(&self) -> Self {
        Self { group: self.group.clone(), resource: "*".to_owned() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            ("*", "") => f.write_str("*."),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

impl Configuration {
    /// Parses a configuration from YAML or JSON; `file` is its name for messages. Unknown fields are errors,
    /// as in kube-apiserver.
    ///
    /// # Errors
    /// The text is not a configuration, or the configuration is not valid. No message has a key.
    pub(crate) fn parse(text: &[u8], file: &str) -> Result<Self, ConfigError> {
        if text.is_empty() {
            return Err(ConfigError::Empty(file.to_owned()));
        }
        let written =
            document::read(text).map_err(|reason| ConfigError::Decoding { file: file.to_owned(), reason })?;
        validate(&written).map_err(ConfigError::Invalid)?;
        let rules = written.into_iter().map(WrittenRule::into_rule).collect::<Result<Vec<_>, _>>()?;
        check_masked(&rules)?;
        Ok(Self { rules })
    }
}

/// Refuses a resource whose group an earlier rule covers as a whole.
fn check_masked(rules: &[Rule]) -> Result<(), ConfigError> {
    let mut earlier: BTreeSet<GroupResource> = BTreeSet::new();
    for resource in rules.iter().flat_map(|rule| &rule.resources) {
        let everything = GroupResource { group: "*".to_owned(), resource: "*".to_owned() };
        for wider in [resource.whole_group(), everything] {
            if earlier.contains(&wider) {
                return Err(ConfigError::Masked { resource: resource.to_string(), by: wider.to_string() });
            }
        }
        earlier.insert(resource.clone());
    }
    Ok(())
}

/// Validates all rules. The error lists all invalid fields.
fn validate(rules: &[WrittenRule]) -> Result<(), String> {
    let (mut errors, root) = (ErrorList::new(), Path::new("resources"));
    let mut names = BTreeSet::new();
    if rules.is_empty() {
        errors.required(&root, "at least one resources is required");
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = root.index(index);
        let (resources, providers) = (path.child("resources"), path.child("providers"));
        if rule.resources.is_empty() {
            errors.required(&resources, format!("at least one {resources} is required"));
        }
        validate_overlap(&rule.resources, &resources, &mut errors);
        for (index, name) in rule.resources.iter().enumerate() {
            if let Some(reason) = name_error(name) {
                errors.invalid(&resources.index(index), name, reason);
            }
        }
        if rule.providers.is_empty() {
            errors.required(&providers, format!("at least one {providers} is required"));
        }
        for (index, provider) in rule.providers.iter().enumerate() {
            provider.validate(&providers.index(index), &mut names, &mut errors);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.aggregate()) }
}

/// Refuses resources that occur twice in one rule, or that another resource of the rule covers.
fn validate_overlap(names: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let all: Vec<_> = names.iter().map(|name| GroupResource::parse(name)).collect();
    let pairs = || {
        let others = |at: usize| all.iter().enumerate().filter(move |(other, _)| *other != at);
        all.iter().enumerate().flat_map(move |(at, one)| others(at).map(move |(_, other)| (one, other)))
    };
    if pairs().any(|(one, other)| one == other) {
        errors.invalid(path, names, "the same resource cannot be specified multiple times");
    }
    let covers = |one: &GroupResource, other: &GroupResource| {
        one.is_everything() || one.group == other.group && one.resource == "*"
    };
    if pairs().any(|(one, other)| covers(one, other)) {
        let reason = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
        errors.invalid(path, names, reason);
    }
}

/// Why a name is not that of resources that can be encrypted.
fn name_error(name: &str) -> Option<&'static str> {
    let GroupResource { group, resource } = GroupResource::parse(name);
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    if name == "*" {
        return Some(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        );
    }
    if matches!(name, "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations") {
        return Some("resources which do not have REST API/s cannot be encrypted");
    }
    match group.as_str() {
        "events.k8s.io" => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        ),
        "extensions" => Some("'extensions' group has been removed and cannot be used for encryption"),
        "*" if resource != "*" => Some("encrypting the same resource across groups is not supported"),
        _ => None,
    }
}

impl WrittenRule {
    fn into_rule(self) -> Result<Rule, ConfigError> {
        let resources = self.resources.iter().map(|name| GroupResource::parse(name)).collect();
        let providers = self.providers.into_iter().map(WrittenProvider::into_config);
        Ok(Rule { resources, providers: providers.collect::<Result<_, _>>()? })
    }
}

impl WrittenProvider {
    /// Validates the provider. `names` has those of the key management services before it.
    fn validate(&self, path: &Path<'_>, names: &mut BTreeSet<String>, errors: &mut ErrorList) {
        let Self { aesgcm, aescbc, secretbox, identity, kms } = self;
        let given =
            [aesgcm.is_some(), aescbc.is_some(), secretbox.is_some(), identity.is_some(), kms.is_some()];
        // The value is left out: it has keys.
        match given.into_iter().filter(|given| *given).count() {
            0 => errors.invalid_omitted(
                path,
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
            ),
            1 => {}
            _ => errors.invalid_omitted(
                path,
                "more than one provider specified in a single element, should split into different list elements",
            ),
        }
        for (name, provider, sizes) in
            [("aesgcm", aesgcm, AES_KEYS), ("aescbc", aescbc, AES_KEYS), ("secretbox", secretbox, &[32])]
        {
            if let Some(provider) = provider {
                validate_keys(&provider.keys, &path.child(name).child("keys"), sizes, errors);
            }
        }
        if let Some(kms) = kms {
            kms.validate(&path.child("kms"), names, errors);
        }
    }

    fn into_config(self) -> Result<ProviderConfig, ConfigError> {
        let Self { aesgcm, aescbc, secretbox, kms, .. } = self;
        if let Some(kms) = kms {
            return kms.into_config();
        }
        let ciphers = [(Cipher::AesGcm, aesgcm), (Cipher::AesCbc, aescbc), (Cipher::Secretbox, secretbox)];
        let local = ciphers.into_iter().find_map(|(cipher, written)| Some((cipher, written?)));
        Ok(match local {
            None => ProviderConfig::Identity,
            Some((cipher, written)) => {
                let keys = written.keys.into_iter().map(WrittenKey::into_key).collect();
                ProviderConfig::Local(Keyring { cipher, keys })
            }
        })
    }
}

impl WrittenKms {
    /// Kubernetes' default is the version that it no longer supports.
    fn version(&self) -> &str {
        if self.api_version.is_empty() { "v1" } else { &self.api_version }
    }

    /// The time limit of calls; `None` if it is not above zero or no duration.
    fn limit(&self) -> Option<Duration> {
        match self.timeout.as_deref() {
            None => Some(KMS_TIMEOUT),
            Some(text) => parse_non_negative(text).ok().filter(|limit| !limit.is_zero()),
        }
    }

    fn validate(&self, path: &Path<'_>, names: &mut BTreeSet<String>, errors: &mut ErrorList) {
        let (name, is_v1) = (&self.name, self.version() == "v1");
        let at = path.child("name");
        if name.is_empty() {
            errors.required(&at, "name is a mandatory field for a provider");
        }
        if !is_v1 && name.contains(':') {
            errors.invalid(&at, name, format!("invalid KMS provider name {name}, must not contain ':'"));
        }
        if !names.insert(name.clone()) && !is_v1 {
            let reason = format!("duplicate KMS provider name {name}, names must be unique");
            errors.invalid(&at, name, reason);
        }
        if self.limit().is_none() {
            let text = self.timeout.as_deref().unwrap_or_default();
            errors.invalid(&path.child("timeout"), text, "timeout should be a positive value");
        }
        let at = path.child("endpoint");
        if self.endpoint.is_empty() {
            errors.invalid(&at, "", "endpoint is a mandatory field for a kms");
        } else if let Err(error) = KmsConfig::new(name.clone(), &self.endpoint, KMS_TIMEOUT) {
            errors.invalid(&at, &self.endpoint, error.to_string());
        }
        let at = path.child("cachesize");
        match self.cachesize {
            Some(size) if !is_v1 => errors.invalid(&at, &size, "cachesize is not supported in v2"),
            Some(0) => {
                errors.invalid(&at, &0, "cachesize should be a positive value, or negative to disable");
            }
            Some(_) | None => {}
        }
        if !matches!(self.version(), "v1" | "v2") {
            let reason = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
            errors.invalid(&path.child("apiVersion"), self.version(), reason);
        }
    }

    fn into_config(self) -> Result<ProviderConfig, ConfigError> {
        if self.version() == "v1" {
            return Err(ConfigError::Unsupported(KMS_V1));
        }
        let limit = self.limit().expect("a validated timeout is above zero");
        let config = KmsConfig::new(self.name, &self.endpoint, limit);
        Ok(ProviderConfig::Kms(config.expect("a validated endpoint is a socket")))
    }
}

/// Time limit of calls without a configured one; Kubernetes' default.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

/// Sizes of AES keys in bytes.
const AES_KEYS: &[usize] = &[16, 24, 32];

fn validate_keys(keys: &[WrittenKey], path: &Path<'_>, sizes: &[usize], errors: &mut ErrorList) {
    if keys.is_empty() {
        errors.required(path, "at least one keys is required");
    }
    for (index, key) in keys.iter().enumerate() {
        let path = path.index(index);
        if key.name.is_empty() {
            errors.required(&path.child("name"), "name is a mandatory field for a key");
        }
        let path = path.child("secret");
        if key.secret.is_empty() {
            errors.required(&path, "secret is a mandatory field for a key");
            continue;
        }
        match key.bytes() {
            None => errors.invalid(&path, "REDACTED", "secrets must be base64 encoded"),
            Some(bytes) if sizes.contains(&bytes.len()) => {}
            Some(bytes) => {
                let listed: Vec<_> = sizes.iter().map(usize::to_string).collect();
                let (found, listed) = (bytes.len(), listed.join(" "));
                let reason =
                    format!("secret is not of the expected length, got {found}, expected one of [{listed}]");
                errors.invalid(&path, "REDACTED", reason);
            }
        }
    }
}

impl WrittenKey {
    /// The decoded secret. Line ends in it are ignored, as by Go.
    fn bytes(&self) -> Option<Vec<u8>> {
        let text: String = self.secret.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        STANDARD.decode(text).ok()
    }

    fn into_key(self) -> NamedKey {
        let bytes = self.bytes().expect("a validated secret is base64");
        NamedKey { name: self.name, key: Key::new(bytes) }
    }
}

#[cfg(test)]
mod tests;
