//! [`Reinvocation`]: which mutating webhooks and policies run in the second round of mutating admission. It
//! tracks one request; the caller makes the calls and mutations.
//!
//! The first round runs everything that matches. Each change of the object makes all earlier webhooks and
//! policies due again that ask for it (`reinvocationPolicy: IfNeeded`). If anything is due, a second round
//! follows. Built-in plugins run again in it; webhooks and policies only if they are due. Those that did not
//! run in the first round do not run in the second.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Plugin of mutating admission that objects configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// MutatingAdmissionPolicies.
    Policies,
    /// Mutating webhooks.
    Webhooks,
}

/// Reinvocation state of one plugin.
#[derive(Clone, Debug, Default)]
struct PluginRecord {
    /// Identities that ran since the last change and ask for reinvocation.
    ran: BTreeSet<Arc<str>>,
    /// Identities due in the second round.
    due: BTreeSet<Arc<str>>,
    /// The object after the plugin's first round; kept only if a later change of it can make something due.
    output: Option<Value>,
}

impl PluginRecord {
    fn require(&mut self) {
        self.due.append(&mut self.ran);
    }
}

/// Reinvocation state of one request.
#[derive(Clone, Debug, Default)]
pub struct Reinvocation {
    is_second: bool,
    is_wanted: bool,
    policies: PluginRecord,
    webhooks: PluginRecord,
}

impl Reinvocation {
    /// The state before the first round.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn record(&mut self, plugin: Plugin) -> &mut PluginRecord {
        match plugin {
            Plugin::Policies => &mut self.policies,
            Plugin::Webhooks => &mut self.webhooks,
        }
    }

    /// Number of the round in audit annotations: 0, then 1.
    #[must_use]
    pub fn round(&self) -> u8 {
        u8::from(self.is_second)
    }

    /// Records the start of a plugin's round, with the current object. Call it before the plugin runs.
    pub fn begin(&mut self, plugin: Plugin, object: Option<&Value>) {
        let is_second = self.is_second;
        let record = self.record(plugin);
        // The object changed since this plugin's first round, so all identities that ask for reinvocation are
        // due.
        if is_second && record.output.as_ref().is_some_and(|output| Some(output) != object) {
            record.require();
        }
    }

    /// Whether a webhook or policy that matches the request runs in this round.
    #[must_use]
    pub fn should_run(&self, plugin: Plugin, uid: &str) -> bool {
        let record = match plugin {
            Plugin::Policies => &self.policies,
            Plugin::Webhooks => &self.webhooks,
        };
        !self.is_second || record.due.contains(uid)
    }

    /// Records one run, also if it failed and the failure is ignored. `changed`: whether the object differs
    /// from before.
    pub fn ran(&mut self, plugin: Plugin, uid: &Arc<str>, reinvoke_if_needed: bool, changed: bool) {
        if changed {
            self.record(plugin).require();
            self.is_wanted = true;
        }
        if reinvoke_if_needed {
            self.record(plugin).ran.insert(uid.clone());
        }
    }

    /// Records that policies wrote the object, changed or not. As in Kubernetes, all policies that ask for
    /// reinvocation are then due, including themselves.
    pub fn wrote(&mut self, plugin: Plugin) {
        self.record(plugin).require();
        self.is_wanted = true;
    }

    /// Records the end of a plugin's round, with the resulting object.
    pub fn end(&mut self, plugin: Plugin, object: Option<&Value>) {
        let is_second = self.is_second;
        let record = self.record(plugin);
        if !is_second && !record.ran.is_empty() {
            record.output = object.cloned();
        }
    }

    /// Starts the second round if the first one needs it. `false`: mutating admission is over.
    #[must_use]
    pub fn start_second_round(&mut self) -> bool {
        if self.is_second || !self.is_wanted {
            return false;
        }
        self.is_second = true;
        true
    }
}
