//! [`Refused`]: why a filter refuses a node, and [`Rejection`], the same with the filter.

use super::{PluginId, Row};
use std::sync::Arc;

/// The reasons why a filter refuses a node: some of its row's, and texts that name an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    is_resolvable: bool,
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
        Self { is_resolvable, reasons, texts: Vec::new() }
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

impl PartialEq for Rejection {
    fn eq(&self, other: &Self) -> bool {
        (self.plugin, &self.refused) == (other.plugin, &other.refused)
    }
}

impl Eq for Rejection {}

impl Rejection {
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

    /// Calls `emit` with each reason, in kube-scheduler's words.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        self.refused.reasons(self.row, emit);
    }
}
