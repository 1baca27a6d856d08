//! [`SchedulerFile`], the value of `--scheduler-config`, and the arguments of `scheduler-config check`.

use super::access::FlagError;
use super::command::{given, subcommand};
use super::{Flag, parser};
use clap::{ArgMatches, Command};
use kstore_scheduler::{Configuration, Gates, Registry, check_extenders};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
`check` prints a KubeSchedulerConfiguration as the scheduler would run it: each profile with its plugins by extension point, in order, with \
the weights of scores and the arguments in effect. The printed text is a configuration again. A file that the scheduler refuses gives exit \
code 1 and every reason, one a line.

Example:
  kstore-server scheduler-config check packed.yaml";

const CHECK: &[Flag<CheckArgs>] =
    &[Flag::path("file", "FILE", |o: &mut CheckArgs, path| o.file = path, "The file, in YAML or JSON")
        .positional()
        .shaped(|arg| arg.required(true))];

/// Adds the subcommands of `scheduler-config`.
pub(super) fn build(command: Command) -> Command {
    let check = "Print a KubeSchedulerConfiguration with its defaults, or what is wrong with it";
    command
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(parser::add(subcommand("check", check, ""), CHECK))
}

/// Reads the arguments of `scheduler-config`.
pub(super) fn read(matches: &ArgMatches) -> Result<CheckArgs, clap::Error> {
    let (_, check) = given(matches)?;
    parser::read(CHECK, check)
}

/// Arguments of `scheduler-config check`.
#[derive(Debug, Default)]
pub struct CheckArgs {
    /// File with a KubeSchedulerConfiguration.
    pub file: PathBuf,
}

/// The text of a KubeSchedulerConfiguration that the scheduler accepts. The file is read once, so that all clusters of the process have the
/// same scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerFile(String);

impl SchedulerFile {
    /// Reads the file. Which feature gates are on is known only later: settings that need one are accepted here.
    pub(super) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        match Configuration::parse(&text, &Registry::in_tree_with(Gates::of(|_| true))) {
            Ok(read) => check_extenders(&read.extenders).map(|()| Self(text)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Checks the file for a scheduler with these feature gates.
    ///
    /// # Errors
    /// The file has a setting that needs a gate.
    pub(super) fn check(&self, gates: Gates) -> Result<(), FlagError> {
        match Configuration::parse(&self.0, &Registry::in_tree_with(gates)) {
            Ok(_) => Ok(()),
            Err(error) => Err(FlagError::new("scheduler-config", "FILE", error)),
        }
    }

    /// What the file says, for a scheduler with these feature gates, with which it was checked.
    pub fn configuration(&self, gates: Gates) -> Configuration {
        Configuration::parse(&self.0, &Registry::in_tree_with(gates)).expect("the text was parsed before")
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Config, OptionalApis, UsageError};

    const FILE: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: mine}]";

    fn config(text: &str, more: &str) -> Result<Result<Config, UsageError>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let line = format!("kstore-server --scheduler-config {}{more}", file.path().display());
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        Ok(cli.serve.into_config())
    }

    #[test]
    fn the_file_is_read_once_and_configures_the_scheduler_of_this_process() {
        let config_of = |more: &str| config(FILE, more).unwrap();
        let scheduler =
            config_of("").unwrap().loops.scheduler.unwrap().configuration(OptionalApis::default().scheduler);
        assert!(scheduler.profiles.has("mine") && !scheduler.profiles.has("default-scheduler"));
        let missing = config_of(" --components apiserver,controllers");
        assert_eq!(missing, Err(UsageError::NeedsScheduler("scheduler-config")));
    }

    #[test]
    fn a_setting_that_needs_a_gate_is_refused_without_it() {
        let shape = "[{utilization: 0, score: 1}]";
        let text = format!(
            "{FILE}\nprofiles: [{{pluginConfig: [{{name: VolumeBinding, args: {{shape: {shape}}}}}]}}]"
        );
        let text = text.replacen("\nprofiles: [{schedulerName: mine}]", "", 1);
        let gate = " --feature-gates StorageCapacityScoring=true";
        assert!(config(&text, gate).unwrap().is_ok());
        assert!(config(&text, "").unwrap().is_ok(), "on by default since 1.37");
        let refused = config(&text, " --kubernetes-version 1.36").unwrap().unwrap_err().to_string();
        assert!(refused.contains("turn on the feature gate StorageCapacityScoring"), "{refused}");
    }

    #[test]
    fn the_longest_stay_is_for_processes_with_a_scheduler() {
        let read = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().serve.into_config();
        let line = "kstore-server --pod-max-in-unschedulable-pods-duration 40s";
        assert_eq!(read(line).unwrap().loops.longest_stay, Some(std::time::Duration::from_secs(40)));
        let refused = UsageError::NeedsScheduler("pod-max-in-unschedulable-pods-duration");
        assert_eq!(read(&format!("{line} --components apiserver")), Err(refused));
    }

    #[test]
    fn a_file_that_the_scheduler_refuses_is_a_usage_error_with_its_reasons() {
        let wrong = format!("{FILE}\npercentageOfNodesToScore: 200\nparallelism: 0");
        let error = config(&wrong, "").unwrap_err();
        for reason in [
            "percentageOfNodesToScore: Invalid value: 200",
            "parallelism: Invalid value: 0",
            "--scheduler-config",
        ] {
            assert!(error.contains(reason), "{error}");
        }
        let tls = "extenders: [{urlPrefix: 'https://x', tlsConfig: {caFile: /no/such/file}}]";
        let error = config(&format!("{FILE}\n{tls}"), "").unwrap_err();
        assert!(error.contains("couldn't build extenders: caFile /no/such/file: "), "{error}");
        assert!(Cli::try_parse_from(["kstore-server", "--scheduler-config", "/no/such/file"]).is_err());
        let check = Cli::try_parse_from(["kstore-server", "scheduler-config", "check", "f"]).unwrap();
        assert!(
            matches!(check.command, Some(crate::args::Command::SchedulerConfig(check)) if check.file.ends_with("f"))
        );
    }
}
