//! `--feature-gates` and `--runtime-config`, by tables: what kstore does is fixed, so that a setting is either what it does anyway,
//! has no effect (a warning), or would make a difference and is refused.

use crate::dropin::UsageError;
use kstore_api::kind;

/// Gates that Kubernetes no longer lets anybody switch off.
const LOCKED: &str = "AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors \
    AuthorizeWithSelectors BtreeWatchCache ComponentSLIs ConsistentListFromCache CPUManagerPolicyOptions \
    CRDValidationRatcheting CronJobsScheduledAnnotation CSIMigrationPortworx CustomResourceFieldSelectors \
    DevicePluginCDIDevices HonorPVReclaimPolicy JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy \
    KubeletTracing LoadBalancerIPMode LogarithmicScaleDown MatchLabelKeysInPodAffinity MemoryManager \
    MultiCIDRServiceAllocator NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion \
    PodIndexLabel PodSchedulingReadiness RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation \
    RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints \
    SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding \
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution SidecarContainers \
    SizeMemoryBackedVolumes StatefulSetAutoDeletePVC StreamingCollectionEncodingToJSON \
    StreamingCollectionEncodingToProtobuf StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks \
    StructuredAuthenticationConfiguration StructuredAuthorizationConfiguration TopologyAwareHints";
/// Gates that are on unless switched off.
const ON: &str = "AggregatedDiscoveryEndpoint AggregatedDiscoveryRemoveBetaType AllowParsingUserUIDFromCertAuth \
    APIResponseCompression APIServerIdentity APIServerTracing ClearingNominatedNodeNameAfterBinding ContainerCheckpoint \
    ContextualLogging CPUManagerPolicyBetaOptions CustomResourceValidationExpressions DeclarativeValidation \
    DetectCacheInconsistency DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion \
    DRAAdminAccess DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DynamicResourceAllocation \
    ExecProbeTimeout ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority \
    ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling JobManagedBy KubeletCgroupDriverFromCRI \
    KubeletFineGrainedAuthz KubeletPodResourcesDynamicResources KubeletPodResourcesGet \
    KubeletPodResourcesListUseActivePods KubeletPSI KubeletSeparateDiskGC \
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions \
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MutableCSINodeAllocatableCount \
    NominatedNodeNameForExpectation OpenAPIEnums PodAffinityNamespaceSelector PodDeletionCost PodLevelResources \
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking \
    PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets PreferSameTrafficDistribution \
    PreventStaticPodAPIReferences ProcMountType ReloadKubeletServerCertificateFile RemoteRequestHeaderUID \
    RotateKubeletServerCertificate SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ \
    SELinuxChangePolicy SELinuxMountReadWriteOncePod ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate \
    StorageNamespaceIndex StorageVersionHash StructuredAuthenticationConfigurationEgressSelector SupplementalGroupsPolicy \
    SystemdWatchdog TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions \
    TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation \
    UserNamespacesSupport ValidatingAdmissionPolicy VolumeAttributesClass WatchList WatchListClient WinDSR WinOverlay";
/// Gates that are off unless switched on.
const OFF: &str = "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests \
    AllowOverwriteTerminationGracePeriodSeconds AllowServiceLBStatusOnNonLB AllowUnsafeMalformedObjectDeletion \
    APIServingWithRoutine CBORServingAndStorage CloudControllerManagerWebhook ClusterTrustBundle \
    ClusterTrustBundleProjection ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation \
    ContainerRestartRules ContainerStopSignals CoordinatedLeaderElection CPUCFSQuotaPeriod CPUManagerPolicyAlphaOptions \
    CrossNamespaceVolumeDataSource CSIVolumeHealth DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas \
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource \
    DRAPartitionableDevices EnvFiles EventedPLEG GangScheduling GenericWorkload GitRepoVolumeDriver \
    HostnameOverride HPAConfigurableTolerance HPAScaleToZero InPlacePodLevelResourcesVerticalScaling \
    InPlacePodVerticalScalingAllocatedStatus InPlacePodVerticalScalingExclusiveCPUs \
    InPlacePodVerticalScalingExclusiveMemory InTreePluginPortworxUnregister KMSv1 KubeletCrashLoopBackOffMax \
    KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletRegistrationGetOnExistsOnly LegacySidecarContainers \
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions MaxUnavailableStatefulSet MemoryQoS \
    MutatingAdmissionPolicy NodeDeclaredFeatures NodeLogQuery OpportunisticBatching PodAndContainerStatsFromCRI \
    PodCertificateRequest PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay \
    RelaxedServiceNameValidation ResourceHealthStatus RestartAllContainersOnContainerExits RuntimeClassInImageCriAPI \
    SELinuxMount SeparateCacheWatchRPC StorageCapacityScoring StorageVersionAPI StorageVersionMigrator \
    StrictIPCIDRValidation TaintTolerationComparisonOperators TopologyManagerPolicyAlphaOptions \
    UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport UserNamespacesPodSecurityStandards \
    WatchCacheInitializationPostStartHook WatchFromStorageWithoutResourceVersion WindowsCPUAndMemoryAffinity \
    WindowsGracefulNodeShutdown WindowsHostNetwork";
/// Gates off by default in Kubernetes whose feature this server always has.
const PRESENT: [&str; 1] = ["MutatingAdmissionPolicy"];

const GATES: &str = "feature-gates";
const APIS: &str = "runtime-config";

/// Checks every `NAME=BOOL` of `--feature-gates`: the warnings about those without effect.
pub(in crate::dropin) fn feature_gates(settings: &[String]) -> Result<Vec<String>, UsageError> {
    let mut warnings = Vec::new();
    for setting in settings {
        let (name, on) = setting_of(GATES, setting)?;
        let is_in = |names: &str| names.split_whitespace().any(|known| known == name);
        let is_warned = if is_in(LOCKED) {
            if !on {
                let reason = format!("cannot set feature gate {name} to false, feature is locked to true");
                return Err(UsageError::value(GATES, setting, reason));
            }
            false
        } else if is_in(ON) {
            !on
        } else if is_in(OFF) {
            on != PRESENT.contains(&name) && on
        } else if matches!(name, "AllAlpha" | "AllBeta") {
            true
        } else {
            return Err(UsageError::value(GATES, setting, format!("unrecognized feature gate: {name}")));
        };
        if is_warned {
            warnings.push(format!("--{GATES}={setting} has no effect: kstore cannot switch this feature"));
        }
    }
    Ok(warnings)
}

/// Checks every `API=BOOL` of `--runtime-config`: the warnings about those without effect.
pub(super) fn runtime_config(settings: &[String]) -> Result<Vec<String>, UsageError> {
    let mut warnings = Vec::new();
    for setting in settings {
        let (name, on) = setting_of(APIS, setting)?;
        if matches!(name, "api/all" | "api/ga" | "api/beta" | "api/alpha" | "api/legacy") {
            if on || name == "api/alpha" {
                let what = "kstore serves the same APIs with and without it";
                warnings.push(format!("--{APIS}={setting} has no effect: {what}"));
                continue;
            }
            return Err(UsageError::value(APIS, setting, "kstore cannot switch its APIs off"));
        }
        match (is_served(name), on) {
            (true, true) | (false, false) => {}
            (true, false) => {
                return Err(UsageError::value(APIS, setting, "kstore cannot switch its APIs off"));
            }
            (false, true) => {
                let reason = "kstore does not serve this API; leave it out, or take tests of it elsewhere";
                return Err(UsageError::value(APIS, setting, reason));
            }
        }
    }
    Ok(warnings)
}

/// A `NAME=BOOL`; a name alone is switched on.
fn setting_of<'a>(flag: &'static str, setting: &'a str) -> Result<(&'a str, bool), UsageError> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    match crate::dropin::flags::parse_bool(value) {
        Some(on) => Ok((name.trim(), on)),
        None => Err(UsageError::value(flag, setting, "expected NAME=true or NAME=false")),
    }
}

/// Whether there is this `group/version`, `version` of the core group, or `group/version/resource`.
fn is_served(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [version] => kind::versions("").any(|served| served == version),
        [group, version] => kind::versions(group).any(|served| served == version),
        [group, version, plural] => kind::lookup(group, version, plural).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Result<Vec<String>, String> {
        let settings: Vec<String> = text.split(',').map(str::to_owned).collect();
        feature_gates(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn gates_are_what_is_there_anyway_or_warned_of_or_refused() {
        assert_eq!(
            gates("SidecarContainers=true,MutatingAdmissionPolicy=true,GenericWorkload=false"),
            Ok(vec![])
        );
        assert_eq!(gates("CrossNamespaceVolumeDataSource=true").unwrap().len(), 1);
        assert_eq!(gates("AggregatedDiscoveryEndpoint=false").unwrap().len(), 1);
        assert!(gates("SidecarContainers=false").unwrap_err().contains("locked to true"));
        assert!(gates("NoSuchGate=true").unwrap_err().contains("unrecognized feature gate: NoSuchGate"));
        assert!(gates("SidecarContainers=perhaps").unwrap_err().contains("expected NAME=true"));
    }

    #[test]
    fn apis_that_are_not_served_cannot_be_switched_on() {
        let apis = |text: &str| runtime_config(&[text.to_owned()]).map_err(|error| error.to_string());
        assert_eq!(apis("apps/v1=true"), Ok(vec![]));
        assert_eq!(apis("v1"), Ok(vec![]));
        assert_eq!(apis("api/all=true").unwrap().len(), 1);
        assert!(apis("scheduling.k8s.io/v9=true").unwrap_err().contains("does not serve"));
        assert!(apis("apps/v1=false").unwrap_err().contains("cannot switch its APIs off"));
        assert!(apis("api/all=false").unwrap_err().contains("cannot switch its APIs off"));
    }
}
