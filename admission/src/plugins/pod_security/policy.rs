//! The Pod Security policy in a namespace's labels: a level and a version for each mode.

use kstore_api::field::{ErrorList, Path};
use kstore_api::meta;
use serde_json::Value;
use std::fmt;

/// A Pod Security level; the strictest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

/// The Kubernetes version of the controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    /// `v1.<minor>`.
    Minor(u64),
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits =
            text.strip_prefix("v1.").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let digits = digits.filter(|digits| *digits == "0" || !digits.starts_with('0'));
        let minor =
            digits.and_then(|digits| digits.parse::<i64>().ok()).and_then(|minor| u64::try_from(minor).ok());
        minor.map(Self::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }
}

/// The controls of a level at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl LevelVersion {
    /// The level without controls.
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The levels of the three modes of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Pods that violate this level are refused.
    pub(super) enforce: LevelVersion,
    /// Violations of this level are noted in the audit log.
    pub(super) audit: LevelVersion,
    /// Violations of this level yield warnings.
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// The policy without controls.
    pub(super) const PRIVILEGED: Self = Self {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    /// Parses the policy in a namespace's labels, with the errors. An invalid label means restricted for
    /// `enforce`, and no controls for the other modes. Without a label a value is that of `default`.
    pub(super) fn of(namespace: &Value, default: Self) -> (Self, ErrorList) {
        let mut policy = default;
        let mut errors = ErrorList::new();
        // Most namespaces have no such label, and every new pod reads the policy.
        let mut labels = meta::labels(namespace).into_iter().flat_map(|labels| labels.keys());
        if !labels.any(|key| key.starts_with(super::PREFIX)) {
            return (policy, errors);
        }
        let labels = Labels { namespace };
        let enforced = labels.read("enforce", Level::parse, &mut errors);
        if let Some(level) = enforced {
            policy.enforce.level = level.unwrap_or(Level::Restricted);
        }
        if let Some(version) = labels.version("enforce-version", &mut errors) {
            policy.enforce.version = version;
        }
        if let Some(level) = labels.read("audit", Level::parse, &mut errors) {
            policy.audit.level = level.unwrap_or(Level::Privileged);
        }
        if let Some(version) = labels.version("audit-version", &mut errors) {
            policy.audit.version = version;
        }
        let warned = labels.read("warn", Level::parse, &mut errors);
        if let Some(level) = warned {
            policy.warn.level = level.unwrap_or(Level::Privileged);
        }
        let warned_version = labels.version("warn-version", &mut errors);
        if let Some(version) = warned_version {
            policy.warn.version = version;
        }
        // Without its own level, `warn` warns about templates whose pods `enforce` would refuse later.
        let is_enforced = matches!(enforced, Some(Some(_))) && policy.enforce.level > policy.warn.level;
        if warned.is_none() && is_enforced {
            policy.warn.level = policy.enforce.level;
            policy.warn.version = warned_version.unwrap_or(policy.enforce.version);
        }
        (policy, errors)
    }

    /// Whether no mode has any control.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

#[derive(Clone, Copy)]
struct Labels<'n> {
    namespace: &'n Value,
}

impl Labels<'_> {
    /// Parses a label: `None` if it is absent, `Some(None)` if it is invalid.
    fn read<T>(
        self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, &'static str>,
        errors: &mut ErrorList,
    ) -> Option<Option<T>> {
        let key = super::name_of(name);
        let text = meta::label(self.namespace, &key)?;
        Some(
            parse(text)
                .map_err(|detail| errors.invalid(&Path::new("metadata.labels").key(&key), text, detail))
                .ok(),
        )
    }

    fn version(self, name: &str, errors: &mut ErrorList) -> Option<Version> {
        self.read(name, Version::parse, errors).map(|version| version.unwrap_or(Version::Latest))
    }
}
