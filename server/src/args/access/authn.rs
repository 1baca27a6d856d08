//! Flags of authentication.

use super::{FlagError, FlagValues};
use kstore_access::authn::oidc::{ALGORITHMS, ClaimRule, IssuerConfig, MappingConfig, Source};
use kstore_access::authz::ReviewVersion;
use std::path::PathBuf;
use std::time::Duration;

/// Default time for which answers of the token webhook are cached, as in Kubernetes.
const TTL: Duration = Duration::from_secs(120);

/// Authenticators of bearer tokens, besides the keys of service accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Whether bootstrap tokens are accepted.
    pub bootstrap_tokens: bool,
    /// The server that reviews tokens, if any.
    pub webhook: Option<TokenWebhookFile>,
    /// File of users and hashes of their passwords, if passwords are accepted. kube-apiserver has no such flag.
    pub basic_auth: Option<PathBuf>,
    /// OpenID Connect issuers, if any.
    pub issuers: Option<IssuerSource>,
    /// Whether `--anonymous-auth` is given: an `AuthenticationConfiguration` must not state the same.
    pub is_anonymous_flag_given: bool,
    /// A warning that anonymous requests are refused, unless the `AuthenticationConfiguration` says otherwise.
    pub anonymous_warning: Option<String>,
}

/// The configuration of OpenID Connect issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerSource {
    /// In flags: an issuer without its authorities, and the file with these authorities.
    Flags(Box<IssuerConfig>, Option<PathBuf>),
    /// In an `AuthenticationConfiguration` file.
    File(PathBuf),
}

/// A server that reviews tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWebhookFile {
    /// Kubeconfig with the server's address and credentials.
    pub kubeconfig: PathBuf,
    /// API version of TokenReviews.
    pub version: ReviewVersion,
    /// How long answers are cached.
    pub ttl: Duration,
}

/// The authenticators that the flags configure.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn authentication(flags: &impl FlagValues) -> Result<Authentication, FlagError> {
    let ttl = flags.time("authentication-token-webhook-cache-ttl", TTL)?;
    let version = version(flags, "authentication-token-webhook-version")?;
    let kubeconfig = flags.file("authentication-token-webhook-config-file");
    Ok(Authentication {
        bootstrap_tokens: flags.is_on("enable-bootstrap-token-auth", false)?,
        basic_auth: flags.file("basic-auth-file"),
        issuers: issuers(flags)?,
        is_anonymous_flag_given: false,
        anonymous_warning: None,
        webhook: kubeconfig.map(|kubeconfig| TokenWebhookFile { kubeconfig, version, ttl }),
    })
}

/// The review version that a flag names.
pub(super) fn version(flags: &impl FlagValues, name: &'static str) -> Result<ReviewVersion, FlagError> {
    let Some(value) = flags.text(name) else { return Ok(ReviewVersion::default()) };
    ReviewVersion::parse(value).ok_or_else(|| FlagError::new(name, value, "expected v1 or v1beta1"))
}

const URL: &str = "oidc-issuer-url";
const CLIENT: &str = "oidc-client-id";
const FILE: &str = "authentication-config";
/// Flags that need the flag [`URL`].
const MORE: [&str; 7] = [
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-required-claim",
    "oidc-signing-algs",
];

fn issuers(flags: &impl FlagValues) -> Result<Option<IssuerSource>, FlagError> {
    let more = || MORE.into_iter().find(|flag| flags.text(flag).is_some());
    let of_flags = [URL, CLIENT].into_iter().find(|flag| flags.text(flag).is_some()).or_else(more);
    if let Some(file) = flags.file(FILE) {
        return match of_flags {
            None => Ok(Some(IssuerSource::File(file))),
            Some(flag) => {
                let reason = format!("--{flag} and --{FILE} are mutually exclusive");
                Err(FlagError::new(FILE, &file.to_string_lossy(), reason))
            }
        };
    }
    match (flags.text(URL), flags.text(CLIENT)) {
        (None, None) => match more() {
            None => Ok(None),
            Some(flag) => Err(FlagError::new(
                flag,
                flags.text(flag).unwrap_or_default(),
                format!("needs --{URL} and --{CLIENT}"),
            )),
        },
        (Some(url), Some(client)) => {
            let issuer = Box::new(issuer(flags, url, client)?);
            Ok(Some(IssuerSource::Flags(issuer, flags.file("oidc-ca-file"))))
        }
        (Some(url), None) => {
            Err(FlagError::new(URL, url, format!("{URL} and {CLIENT} must be specified together")))
        }
        (None, Some(id)) => {
            Err(FlagError::new(CLIENT, id, format!("{URL} and {CLIENT} must be specified together")))
        }
    }
}

fn issuer(flags: &impl FlagValues, url: &str, client: &str) -> Result<IssuerConfig, FlagError> {
    const ALGS: &str = "oidc-signing-algs";
    const REQUIRED: &str = "oidc-required-claim";
    if !url.starts_with("https://") {
        return Err(FlagError::new(URL, url, "must begin with https://"));
    }
    let username = flags.text("oidc-username-claim").unwrap_or("sub").to_owned();
    let prefix = match flags.text("oidc-username-prefix") {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if username == "email" => String::new(),
        None => format!("{url}#"),
    };
    let mut algorithms = flags.elements(ALGS);
    if let Some(unknown) = algorithms.iter().find(|name| !ALGORITHMS.contains(&name.as_str())) {
        return Err(FlagError::new(ALGS, unknown, format!("expected some of {}", ALGORITHMS.join(", "))));
    }
    if algorithms.is_empty() {
        algorithms.push("RS256".to_owned());
    }
    let required = flags.elements(REQUIRED).into_iter().map(|pair| match pair.split_once('=') {
        Some((claim, value)) => Ok(ClaimRule::Required { claim: claim.to_owned(), value: value.to_owned() }),
        None => Err(FlagError::new(REQUIRED, &pair, "expected KEY=VALUE")),
    });
    let groups = flags.text("oidc-groups-claim").map(|claim| Source::Claim {
        claim: claim.to_owned(),
        prefix: flags.text("oidc-groups-prefix").unwrap_or_default().to_owned(),
    });
    Ok(IssuerConfig {
        url: url.to_owned(),
        discovery_url: None,
        authorities: Vec::new(),
        audiences: vec![client.to_owned()],
        algorithms,
        mapping: MappingConfig {
            username: Source::Claim { claim: username, prefix },
            groups,
            uid: None,
            extra: Vec::new(),
            claim_rules: required.collect::<Result<_, _>>()?,
            user_rules: Vec::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;

    #[test]
    fn an_issuer_has_kubernetes_defaults() {
        assert_eq!(authentication(&TestFlags(vec![])), Ok(Authentication::default()));
        let with = |more: &[(&'static str, &'static str)]| {
            let mut flags = vec![(URL, "https://a"), (CLIENT, "kube")];
            flags.extend(more);
            match authentication(&TestFlags(flags)).unwrap().issuers {
                Some(IssuerSource::Flags(issuer, _)) => *issuer,
                other => panic!("no issuer of flags: {other:?}"),
            }
        };
        let username = |issuer: &IssuerConfig| match &issuer.mapping.username {
            Source::Claim { claim, prefix } => format!("{prefix}{claim}"),
            Source::Expression(_) => panic!("an expression"),
        };
        let plain = with(&[]);
        assert_eq!(
            (username(&plain).as_str(), &plain.algorithms[..]),
            ("https://a#sub", &["RS256".to_owned()][..])
        );
        assert_eq!(username(&with(&[("oidc-username-claim", "email")])), "email");
        assert_eq!(username(&with(&[("oidc-username-prefix", "-")])), "sub");
        assert_eq!(username(&with(&[("oidc-username-prefix", "x:")])), "x:sub");
        let full = with(&[
            ("oidc-groups-claim", "roles"),
            ("oidc-groups-prefix", "o:"),
            ("oidc-required-claim", "hd=b"),
            ("oidc-signing-algs", "ES256,RS256"),
        ]);
        let groups = Source::Claim { claim: "roles".to_owned(), prefix: "o:".to_owned() };
        assert_eq!(full.mapping.groups, Some(groups));
        let rule = ClaimRule::Required { claim: "hd".to_owned(), value: "b".to_owned() };
        assert_eq!((full.mapping.claim_rules, full.algorithms.len()), (vec![rule], 2));
    }

    #[test]
    fn contradictory_authentication_flags_are_refused() {
        for (flags, want) in [
            (vec![(URL, "https://a")], "must be specified together"),
            (vec![(CLIENT, "a")], "must be specified together"),
            (vec![(URL, "http://a"), (CLIENT, "a")], "must begin with https://"),
            (vec![("oidc-groups-claim", "g")], "needs --oidc-issuer-url and --oidc-client-id"),
            (vec![(FILE, "f"), (URL, "https://a")], "are mutually exclusive"),
            (
                vec![(URL, "https://a"), (CLIENT, "a"), ("oidc-signing-algs", "HS256")],
                "expected some of RS256",
            ),
            (vec![(URL, "https://a"), (CLIENT, "a"), ("oidc-required-claim", "x")], "expected KEY=VALUE"),
            (vec![("authentication-token-webhook-version", "v2")], "expected v1 or v1beta1"),
        ] {
            let refused = authentication(&TestFlags(flags)).unwrap_err().to_string();
            assert!(refused.contains(want), "{refused}");
        }
    }
}
