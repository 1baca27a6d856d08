//! Rules of validation that are newer than stored objects; `validate` finds them in errors.

/// Validation rule that objects may break if their stored version breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RatchetedRule {
    /// Values in label selectors must be label values.
    SelectorValue,
    /// Values in required node selectors must be label values.
    NodeValue,
    /// Label selectors of topology spread constraints must be valid.
    SpreadSelector,
    /// Amounts of huge pages must be multiples of the page size.
    HugePages,
    /// The pod deletion cost must be a number.
    DeletionCost,
    /// Pods must not set sysctls of the host's namespaces.
    HostSysctl,
    /// Token paths must stay inside the volume.
    TokenPath,
    /// TLS entries of an ingress must name a valid secret.
    IngressSecret,
    /// Data sources must have a valid API group.
    SourceGroup,
    /// Rules with a wildcard host are validated like others.
    WildcardHost,
    /// Pods with `hostUsers: false` must not use the host network.
    OwnUsersNetwork,
    /// Pods with `hostUsers: false` must not use volume devices.
    OwnUsersDevices,
}
