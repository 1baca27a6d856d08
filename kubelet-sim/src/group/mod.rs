//! Groups of nodes: the objects of the kind NodeGroup, and the decisions which nodes a group makes and gives up. Pure: `plan` goes from a
//! group, its instances and the time to actions, `cost` counts what the instances cost.

pub(crate) mod cost;
pub(crate) mod names;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod spec;
pub(crate) mod template;
#[cfg(test)]
mod tests;

/// The annotation of a NodeGroup with the uids of Nodes, separated by commas, that it gives up before all others.
pub(crate) const REMOVE_ANNOTATION: &str = "sim.kstore.io/remove";
/// The label of a group's nodes.
pub(crate) const GROUP_LABEL: &str = "sim.kstore.io/group";
/// The annotation of a group's node with its number.
pub(crate) const INDEX_ANNOTATION: &str = "sim.kstore.io/index";
/// The label of a group's nodes that says how they are paid for.
pub(crate) const CAPACITY_TYPE_LABEL: &str = "sim.kstore.io/capacity-type";
