//! The flag of leader election.

use super::COMPONENTS;
use clap::Args;

/// The `--leader-elect` flag.
#[derive(Debug, Args)]
pub(super) struct ElectionArgs {
    /// Run controllers and scheduler only while this process holds their Leases in kube-system, so that one of several processes
    /// works [default: true without `apiserver` in --components or with --etcd-servers]
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = COMPONENTS)]
    pub(super) leader_elect: Option<bool>,
}
