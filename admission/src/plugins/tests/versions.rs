//! The plugins of each version of Kubernetes and their order, against what Kubernetes states.

use crate::plugin::Enabled;
use crate::plugins::PLUGINS;
use crate::registered::{LEFT_OUT, is_in};
use kstore_api::version::Minor;

/// Kubernetes' plugins in their order: name, whether the plugin runs by default, and the versions that have it.
const PLUGINS_OF_KUBERNETES: &str = "\
AlwaysAdmit off 1.33 1.37
NamespaceAutoProvision off 1.33 1.37
NamespaceLifecycle on 1.33 1.37
NamespaceExists off 1.33 1.37
LimitPodHardAntiAffinityTopology off 1.33 1.37
LimitRanger on 1.33 1.37
ServiceAccount on 1.33 1.37
NodeRestriction off 1.33 1.37
TaintNodesByCondition on 1.33 1.37
AlwaysPullImages off 1.33 1.37
ImagePolicyWebhook off 1.33 1.37
PodSecurity on 1.33 1.37
PodNodeSelector off 1.33 1.37
Priority on 1.33 1.37
DefaultTolerationSeconds on 1.33 1.37
PodTolerationRestriction off 1.33 1.37
EventRateLimit off 1.33 1.37
ExtendedResourceToleration off 1.33 1.37
DefaultStorageClass on 1.33 1.37
StorageObjectInUseProtection on 1.33 1.37
PodGroupProtection on 1.36 1.37
OwnerReferencesPermissionEnforcement off 1.33 1.37
PersistentVolumeClaimResize on 1.33 1.37
RuntimeClass on 1.33 1.37
CertificateApproval on 1.33 1.37
CertificateSigning on 1.33 1.37
ClusterTrustBundleAttest on 1.33 1.37
CertificateSubjectRestriction on 1.33 1.37
DefaultIngressClass on 1.33 1.37
DenyServiceExternalIPs off 1.33 1.37
PodTopologyLabels on 1.33 1.37
PodGroupWorkloadExists on 1.36 1.36
NodeDeclaredFeatureValidator on 1.35 1.37
JobValidation on 1.36 1.37
PodResizeValidator on 1.36 1.37
MutatingAdmissionPolicy on 1.33 1.37
MutatingAdmissionWebhook on 1.33 1.37
ValidatingAdmissionPolicy on 1.33 1.37
ValidatingAdmissionWebhook on 1.33 1.37
ResourceQuota on 1.33 1.37
AlwaysDeny off 1.33 1.37
";

/// Plugins that run by default here and in Kubernetes only if a flag enables them, as the installers of clusters do.
const ON_HERE: [&str; 1] = ["NodeRestriction"];

/// Plugins that run elsewhere in the order than in Kubernetes: nothing that they read depends on what is between.
const MOVED: [&str; 1] = ["AlwaysDeny"];

#[test]
fn each_version_has_the_plugins_of_kubernetes_in_their_order() {
    let parse = |text: &str| text.parse::<Minor>().unwrap();
    for minor in Minor::SERVED {
        let lines = PLUGINS_OF_KUBERNETES.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let expected: Vec<(&str, bool)> = lines
            .filter(|words| (parse(words[2])..=parse(words[3])).contains(&minor))
            .map(|words| (words[0], words[1] == "on" || ON_HERE.contains(&words[0])))
            .filter(|(name, _)| !LEFT_OUT.contains(name) && !MOVED.contains(name))
            .collect();
        let own: Vec<(&str, bool)> = PLUGINS
            .iter()
            .filter(|row| row.enabled != Enabled::Always && is_in(minor, row.name))
            .map(|row| (row.name, row.enabled == Enabled::ByDefault))
            .filter(|(name, _)| PLUGINS_OF_KUBERNETES.contains(&format!("{name} ")) && !MOVED.contains(name))
            .collect();
        assert_eq!(own, expected, "{minor}");
    }
}
