//! [`SchedulerConfig`]: the settings of a KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`) that kstore's scheduler supports.
//! It refuses settings that would change scheduling in an unsupported way, and ignores settings that only tune.

use super::election::ElectionSettings;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The supported `apiVersion` of the file.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// Supported settings of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SchedulerConfig {
    /// `clientConnection.kubeconfig`: path of the kubeconfig file; a relative path is relative to the working directory, as in Kubernetes.
    pub kubeconfig: Option<PathBuf>,
    /// `schedulerName` of the profile: the scheduler handles pods with this `spec.schedulerName`. `None`: the default name.
    pub scheduler_name: Option<String>,
    /// `percentageOfNodesToScore`, from 0 to 100.
    pub percentage: Option<usize>,
    /// Leader election settings; flags take precedence.
    pub election: ElectionSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    client_connection: ClientConnection,
    #[serde(default)]
    profiles: Vec<Profile>,
    percentage_of_nodes_to_score: Option<usize>,
    #[serde(default)]
    extenders: Vec<Value>,
    #[serde(default)]
    leader_election: ElectionSettings,
}

#[derive(Default, Deserialize)]
struct ClientConnection {
    kubeconfig: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    scheduler_name: Option<String>,
    percentage_of_nodes_to_score: Option<usize>,
    #[serde(default)]
    plugins: Value,
    #[serde(default)]
    plugin_config: Vec<Value>,
}

impl SchedulerConfig {
    /// Parses the text of a file. `path` occurs in error messages only.
    pub(super) fn parse(text: &str, path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let file: File =
            serde_yaml_ng::from_str(text).with_context(|| format!("cannot read --config {shown}"))?;
        if file.kind != "KubeSchedulerConfiguration" || file.api_version != API_VERSION {
            bail!("--config {shown}: expected kind KubeSchedulerConfiguration of {API_VERSION}");
        }
        if !file.extenders.is_empty() {
            bail!("--config {shown}: kstore's scheduler has no extenders");
        }
        let mut config = Self {
            kubeconfig: file.client_connection.kubeconfig,
            scheduler_name: None,
            percentage: file.percentage_of_nodes_to_score,
            election: file.leader_election,
        };
        match &file.profiles[..] {
            [] => {}
            [profile] => {
                if !is_empty(&profile.plugins) || !profile.plugin_config.is_empty() {
                    bail!(
                        "--config {shown}: the plugins of kstore's scheduler are fixed; leave out `plugins` and `pluginConfig`"
                    );
                }
                config.scheduler_name = profile.scheduler_name.clone();
                config.percentage = profile.percentage_of_nodes_to_score.or(config.percentage);
            }
            _ => bail!("--config {shown}: kstore's scheduler has one profile; start one program for each"),
        }
        if config.percentage.is_some_and(|percentage| percentage > 100) {
            bail!("--config {shown}: percentageOfNodesToScore is from 0 to 100");
        }
        Ok(config)
    }
}

/// Whether `plugins` neither enables nor disables a plugin.
fn is_empty(plugins: &Value) -> bool {
    match plugins {
        Value::Null => true,
        Value::Object(members) => members.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> anyhow::Result<SchedulerConfig> {
        let text = format!("apiVersion: {API_VERSION}\nkind: KubeSchedulerConfiguration\n{rest}");
        SchedulerConfig::parse(&text, Path::new("f"))
    }

    #[test]
    fn names_percentages_and_the_kubeconfig_are_read() {
        let parsed = parse("leaderElection: {leaderElect: false}").unwrap();
        assert_eq!(parsed.election.leader_elect, Some(false));
        assert_eq!(
            SchedulerConfig { election: ElectionSettings::default(), ..parsed },
            SchedulerConfig::default()
        );
        let all = "clientConnection: {kubeconfig: k, qps: 1000}\npercentageOfNodesToScore: 10\n\
                   profiles: [{schedulerName: mine, plugins: {score: {}}, percentageOfNodesToScore: 50}]";
        let expected = SchedulerConfig {
            kubeconfig: Some("k".into()),
            scheduler_name: Some("mine".into()),
            percentage: Some(50),
            election: ElectionSettings::default(),
        };
        assert_eq!(parse(all).unwrap(), expected);
    }

    #[test]
    fn unsupported_scheduler_settings_are_refused() {
        for refused in [
            "extenders: [{urlPrefix: 'http://a'}]",
            "profiles: [{schedulerName: a}, {schedulerName: b}]",
            "profiles: [{plugins: {score: {disabled: [{name: NodeAffinity}]}}}]",
            "profiles: [{pluginConfig: [{name: NodeResourcesFit}]}]",
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: many",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
        let other = SchedulerConfig::parse("apiVersion: v1\nkind: Config\n", Path::new("f")).unwrap_err();
        assert!(other.to_string().contains("expected kind KubeSchedulerConfiguration"), "{other}");
    }
}
