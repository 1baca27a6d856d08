//! [`Refused`]: why a filter refuses a node, or cannot check it, and [`Rejection`], the same with the filter.

use super::{PluginId, Row};
use crate::event::EventSet;
use std::sync::Arc;

/// The reasons why a filter refuses a node: some of its row's, and texts that name an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    is_resolvable: bool,
    /// Whether the filter failed: the attempt is erroneous, whatever other nodes say.
    is_error: bool,
    /// A bit per index of the row's reasons.
    reasons: u32,
    texts: Vec<Arc<str>>,
}

impl Refused {
    /// A refusal that the removal of pods from the node may change, for the row's reason at `index`.
    pub fn resolvable(index: u32) -> Self {
        Self::by(true, 1 << index)
    }

    /// A refusal that no removal of pods changes, for the row's reason at `index`.
    pub fn unresolvable(index: u32) -> Self {
        Self::by(false, 1 << index)
    }

    /// A refusal for the row's reasons whose bits are set.
    pub fn by(is_resolvable: bool, reasons: u32) -> Self {
        Self { is_resolvable, is_error: false, reasons, texts: Vec::new() }
    }

    /// A failure to check the node, which ends the attempt: an object that the pod refers to is faulty. The scheduler tries the pod again
    /// after a back-off.
    pub fn error(text: String) -> Self {
        Self { is_resolvable: false, is_error: true, reasons: 0, texts: vec![text.into()] }
    }

    /// Adds reasons that are not in the row.
    #[must_use]
    pub fn with_texts(mut self, texts: Vec<Arc<str>>) -> Self {
        self.texts = texts;
        self
    }

    /// Whether the row's reason at `index` is one of the reasons.
    pub fn has(&self, index: u32) -> bool {
        self.reasons & 1 << index != 0
    }

    /// Whether removing pods from the node could change the result.
    pub fn is_resolvable(&self) -> bool {
        self.is_resolvable
    }

    /// The text of a failure to check the node; `None` for a refusal.
    pub fn failure(&self) -> Option<&str> {
        self.texts.first().map(|text| &**text).filter(|_| self.is_error)
    }

    /// Calls `emit` with each reason, in kube-scheduler's words. `row` is that of the filter.
    pub fn reasons(&self, row: &Row, emit: &mut dyn FnMut(&str)) {
        let named = row.reasons.iter().zip(0..).filter(|(_, index)| self.has(*index));
        named.for_each(|(reason, _)| emit(reason));
        self.texts.iter().for_each(|text| emit(text));
    }
}

/// The first filter that refused a node, and its reasons.
#[derive(Clone, Debug)]
pub struct Rejection {
    plugin: PluginId,
    row: &'static Row,
    refused: Refused,
}

/// The facts about extenders as if they were a plugin.
pub(crate) const EXTENDERS: &Row =
    &Row { name: "Extender", points: &[], weight: 0, reasons: &[], events: EventSet::of(&[]) };

impl PartialEq for Rejection {
    fn eq(&self, other: &Self) -> bool {
        (self.plugin, &self.refused) == (other.plugin, &other.refused)
    }
}

impl Eq for Rejection {}

impl Rejection {
    /// A refusal by an extender, for this reason.
    pub(crate) fn by_extender(is_resolvable: bool, why: &str) -> Self {
        let refused = Refused::by(is_resolvable, 0).with_texts(vec![why.into()]);
        Self::new(PluginId::EXTENDERS, EXTENDERS, refused)
    }

    /// A refusal by this plugin, which has this row.
    pub(crate) fn new(plugin: PluginId, row: &'static Row, refused: Refused) -> Self {
        Self { plugin, row, refused }
    }

    /// The filter that refused.
    pub fn plugin(&self) -> PluginId {
        self.plugin
    }

    /// The name of the filter that refused.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// The reasons as the filter gave them.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Whether removing pods from the node could change the result.
    pub fn is_resolvable(&self) -> bool {
        self.refused.is_resolvable
    }

    /// The text of the attempt's error if the filter could not check the node; `None` for a refusal.
    pub fn failure(&self) -> Option<String> {
        let text = self.refused.failure()?;
        Some(format!("running \"{}\" filter plugin: {text}", self.row.name))
    }

    /// Calls `emit` with each reason, in kube-scheduler's words.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        self.refused.reasons(self.row, emit);
    }
}
