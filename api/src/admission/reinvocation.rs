//! [`Reinvocation`]: which mutating webhooks and policies run in the second round of mutating admission. It only keeps the books of one
//! request; calls and mutations are the caller's.
//!
//! The first round runs everything that matches. Each time something changes the object, all that ran before it and asked for it
//! (`reinvocationPolicy: IfNeeded`) is due again. If anything is due after the round, there is one more: plugins in the server run
//! again, webhooks and policies only where due. What did not run in the first round does not run in the second.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

/// The two parts of mutating admission that are configured by objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// MutatingAdmissionPolicies.
    Policies,
    /// Mutating webhooks.
    Webhooks,
}

/// The record of one plugin.
#[derive(Clone, Debug, Default)]
struct PluginRecord {
    /// What ran since the last change and wants to run again after one.
    ran: BTreeSet<Arc<str>>,
    /// What is due in the second round.
    due: BTreeSet<Arc<str>>,
    /// The object as the plugin left it in the first round; kept only if something could become due by a change of it.
    output: Option<Value>,
}

impl PluginRecord {
    fn require(&mut self) {
        self.due.append(&mut self.ran);
    }
}

/// The state of one request.
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

    /// The number of the round for audit annotations: 0, then 1.
    #[must_use]
    pub fn round(&self) -> u8 {
        u8::from(self.is_second)
    }

    /// To be told before a plugin begins its part of a round, with the object as it is then.
    pub fn begin(&mut self, plugin: Plugin, object: Option<&Value>) {
        let is_second = self.is_second;
        let record = self.record(plugin);
        // Something between the two parts of this plugin changed the object: everything that asked for it is due.
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

    /// To be told after each run, also if it failed and is passed over. `changed`: the object is another than before.
    pub fn ran(&mut self, plugin: Plugin, uid: &Arc<str>, reinvoke_if_needed: bool, changed: bool) {
        if changed {
            self.record(plugin).require();
            self.is_wanted = true;
        }
        if reinvoke_if_needed {
            self.record(plugin).ran.insert(uid.clone());
        }
    }

    /// To be told when policies wrote the object, changed or not: upstream then runs those that ask for it once more, themselves
    /// included.
    pub fn wrote(&mut self, plugin: Plugin) {
        self.record(plugin).require();
        self.is_wanted = true;
    }

    /// To be told after a plugin's part of a round, with the object as it left it.
    pub fn end(&mut self, plugin: Plugin, object: Option<&Value>) {
        let is_second = self.is_second;
        let record = self.record(plugin);
        if !is_second && !record.ran.is_empty() {
            record.output = object.cloned();
        }
    }

    /// Begins the second round if the first one asks for it. `false`: mutating admission is over.
    #[must_use]
    pub fn start_second_round(&mut self) -> bool {
        if self.is_second || !self.is_wanted {
            return false;
        }
        self.is_second = true;
        true
    }
}
