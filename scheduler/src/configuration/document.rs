//! Reading of the file: [`read`] makes a [`Document`] of it, with the default of each absent member, and collects what breaks a rule.

use super::merge::{EnabledPlugin, PLACEMENTS, PluginSetDoc, PluginsDoc};
use super::settings::{ClientConnection, Document, LeaderElection, PluginArgs, ProfileDoc};
use crate::extender::{self, Extender};
use crate::fields::Fields;
use crate::plugin::ExtensionPoint;
use crate::profile::DEFAULT_SCHEDULER_NAME;
use serde_json::{Value, json};

/// Plugins of former versions. kube-scheduler refuses them by name.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];
/// The largest number of profiles.
const PROFILES: usize = crate::limits::PROFILES;

/// Reads the members beside `apiVersion` and `kind`.
pub(super) fn read(file: &mut Fields<'_>) -> Document {
    let parallelism = file.integer("parallelism").unwrap_or(16);
    if parallelism <= 0 {
        file.invalid("parallelism", &parallelism, "should be an integer value greater than zero");
    }
    let leader_election = file.object("leaderElection", leader_election).unwrap_or_default();
    let client_connection = file.object("clientConnection", client_connection).unwrap_or_default();
    // Accepted: there is nothing to profile by HTTP, and the informers start with the work.
    for name in ["enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"] {
        file.boolean(name);
    }
    let percentage = percentage(file);
    let (initial, longest) = backoff(file);
    let mut profiles = file.objects("profiles", profile).unwrap_or_default();
    check_names(file, &mut profiles);
    check_queue_sort(file, &profiles);
    let extenders = extender::read(file);
    ignore_resources(&mut profiles, &extenders);
    Document {
        parallelism,
        leader_election,
        client_connection,
        percentage,
        initial,
        longest,
        profiles,
        extenders,
    }
}

/// Lets NodeResourcesFit of every profile ignore the resources that extenders manage alone. As in kube-scheduler, that replaces the list in
/// the plugin's arguments.
fn ignore_resources(profiles: &mut [ProfileDoc], extenders: &[Extender]) {
    const PLUGIN: &str = "NodeResourcesFit";
    let managed = extenders.iter().flat_map(|one| &one.managed_resources);
    let ignored: Vec<&str> =
        managed.filter(|one| one.is_ignored_by_scheduler).map(|one| &*one.name).collect();
    if ignored.is_empty() {
        return;
    }
    for (index, profile) in profiles.iter_mut().enumerate() {
        let known = profile.args.iter().position(|args| args.name == PLUGIN);
        let place = known.unwrap_or_else(|| {
            let path = format!("profiles[{index}].pluginConfig[{}].args", profile.args.len());
            profile.args.push(PluginArgs { name: PLUGIN.to_owned(), path, args: Value::Null });
            profile.args.len() - 1
        });
        let args = &mut profile.args[place].args;
        // Arguments of another type are reported when the plugin reads them.
        if args.is_null() || args.is_object() {
            args["ignoredResources"] = json!(ignored);
        }
    }
}

fn percentage(fields: &mut Fields<'_>) -> Option<i64> {
    const NAME: &str = "percentageOfNodesToScore";
    let percentage = fields.integer(NAME)?;
    if !(0..=100).contains(&percentage) {
        fields.invalid(NAME, &percentage, "not in valid range [0-100]");
    }
    Some(percentage)
}

/// The first and the longest back-off, in seconds.
fn backoff(file: &mut Fields<'_>) -> (i64, i64) {
    const INITIAL: &str = "podInitialBackoffSeconds";
    const LONGEST: &str = "podMaxBackoffSeconds";
    let initial = file.integer(INITIAL).unwrap_or(1);
    let longest = file.integer(LONGEST).unwrap_or(10);
    if initial <= 0 {
        file.invalid(INITIAL, &initial, "must be greater than 0");
    }
    if longest < initial {
        file.invalid(LONGEST, &longest, "must be greater than or equal to PodInitialBackoffSeconds");
    }
    (initial, longest)
}

fn leader_election(fields: &mut Fields<'_>) -> LeaderElection {
    let read = LeaderElection {
        leader_elect: fields.boolean("leaderElect"),
        resource_lock: fields.text("resourceLock"),
        resource_namespace: fields.text("resourceNamespace"),
        resource_name: fields.text("resourceName"),
        lease_duration: fields.duration("leaseDuration").filter(|nanos| *nanos != 0),
        renew_deadline: fields.duration("renewDeadline").filter(|nanos| *nanos != 0),
        retry_period: fields.duration("retryPeriod").filter(|nanos| *nanos != 0),
    };
    if read.leader_elect == Some(false) {
        return read;
    }
    // A zero is the default, as in kube-scheduler.
    let nanos = |given: Option<i64>, usual: i64| given.unwrap_or(usual * 1_000_000_000);
    let lease = nanos(read.lease_duration, 15);
    let renew = nanos(read.renew_deadline, 10);
    for (name, nanos) in
        [("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", nanos(read.retry_period, 2))]
    {
        if nanos <= 0 {
            fields.invalid(name, &kstore_go_duration::format(nanos), "must be greater than zero");
        }
    }
    if lease <= renew {
        // kube-scheduler shows the deadline as the value of the duration.
        let text = "must be greater than `RenewDeadline`";
        fields.invalid("leaseDuration", &kstore_go_duration::format(renew), text);
    }
    if let Some(lock) = read.resource_lock.as_ref().filter(|lock| !lock.is_empty() && *lock != "leases") {
        fields.invalid("resourceLock", lock, "resourceLock value must be \"leases\"");
    }
    read
}

fn client_connection(fields: &mut Fields<'_>) -> ClientConnection {
    // What only tunes the client is accepted: requests are not throttled, and their encoding is fixed.
    ["acceptContentTypes", "contentType"].into_iter().for_each(|name| drop(fields.text(name)));
    fields.number("qps");
    if let Some(burst) = fields.integer("burst").filter(|burst| *burst < 0) {
        fields.invalid("burst", &burst, "must be non-negative");
    }
    ClientConnection { kubeconfig: fields.text("kubeconfig").filter(|path| !path.is_empty()) }
}

fn profile(fields: &mut Fields<'_>) -> ProfileDoc {
    let scheduler_name = fields.text("schedulerName");
    let percentage = percentage(fields);
    let plugins = fields.object("plugins", plugins).unwrap_or_default();
    let mut args: Vec<PluginArgs> = Vec::new();
    let entries = fields.objects("pluginConfig", |entry| {
        let name = entry.text("name").unwrap_or_default();
        PluginArgs { name, path: entry.path("args"), args: entry.value("args").unwrap_or_default() }
    });
    for (index, entry) in entries.unwrap_or_default().into_iter().enumerate() {
        let place = format!("pluginConfig[{index}]");
        if args.iter().any(|before| before.name == entry.name) {
            fields.duplicate(&place, &entry.name);
        }
        check_removed(fields, &place, &entry.name);
        args.push(entry);
    }
    ProfileDoc { has_name: scheduler_name.is_some(), scheduler_name, percentage, plugins, args }
}

fn check_removed(fields: &mut Fields<'_>, place: &str, name: &str) {
    if REMOVED.contains(&name) {
        const VERSION: &str = super::API_VERSION;
        let text =
            format!("was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"{VERSION}\")");
        fields.invalid(place, name, text);
    }
}

fn plugins(fields: &mut Fields<'_>) -> PluginsDoc {
    let mut read = PluginsDoc {
        multi_point: fields.object("multiPoint", plugin_set).unwrap_or_default(),
        ..PluginsDoc::default()
    };
    for point in ExtensionPoint::ALL {
        let set = fields.object(point.member(), plugin_set).unwrap_or_default();
        for (index, plugin) in set.enabled.iter().enumerate() {
            check_removed(fields, &format!("{}.enabled[{index}]", point.member()), &plugin.name);
        }
        read.points[point as usize] = set;
    }
    for (name, _, _) in PLACEMENTS {
        read.placements.push(fields.object(name, plugin_set).unwrap_or_default());
        if read.placements.iter().any(|set| !set.enabled.is_empty()) {
            fields.warn(name, "this scheduler chooses no placements of groups of pods; it has no effect");
        }
    }
    read
}

fn plugin_set(fields: &mut Fields<'_>) -> PluginSetDoc {
    let plugin = |item: &mut Fields<'_>| EnabledPlugin {
        name: item.text("name").unwrap_or_default(),
        weight: item.integer("weight").unwrap_or_default(),
    };
    let enabled = fields.objects("enabled", plugin).unwrap_or_default();
    let disabled = fields.objects("disabled", plugin).unwrap_or_default();
    PluginSetDoc { enabled, disabled: disabled.into_iter().map(|plugin| plugin.name).collect() }
}

/// Checks the profiles' names. A single profile has the default name.
fn check_names(file: &mut Fields<'_>, profiles: &mut Vec<ProfileDoc>) {
    if profiles.is_empty() {
        profiles.push(ProfileDoc::default());
    }
    if profiles.len() > PROFILES {
        let text = format!("must have at most {PROFILES} items");
        return file.invalid("profiles", &profiles.len(), text);
    }
    if let [only] = &mut profiles[..]
        && !only.has_name
    {
        only.scheduler_name = Some(DEFAULT_SCHEDULER_NAME.to_owned());
    }
    for (index, profile) in profiles.iter().enumerate() {
        let (place, name) = (format!("profiles[{index}].schedulerName"), profile.name());
        let is_repeated = profiles[..index].iter().any(|before| before.name() == name);
        if name.is_empty() {
            file.required(&place, "");
        }
        if is_repeated {
            file.duplicate_object(&place);
        }
    }
}

/// All profiles share one queue, and so its order.
fn check_queue_sort(file: &mut Fields<'_>, profiles: &[ProfileDoc]) {
    let set = |profile: &ProfileDoc| profile.plugins.points[ExtensionPoint::QueueSort as usize].clone();
    let Some(first) = profiles.first().map(set) else { return };
    if first.enabled.len() > 1 {
        let text = "only one queue sort plugin can be enabled";
        file.invalid("profiles[0].plugins.queueSort.Enabled", &first.enabled.len(), text);
    }
    for (index, profile) in profiles.iter().enumerate().skip(1) {
        let other = set(profile);
        if other != first {
            let place = format!("profiles[{index}].plugins.queueSort");
            file.invalid(&place, &other.as_go(), "must be the same for all profiles");
        }
    }
}
