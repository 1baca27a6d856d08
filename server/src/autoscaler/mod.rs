//! The cloud of Cluster Autoscaler: NodeGroups as node groups of its provider `externalgrpc`, which the autoscaler makes larger and
//! smaller. `messages` has the protocol, `decide` what a call changes (pure), `provider` reads and writes the objects, and `serve` accepts
//! calls.

mod decide;
mod messages;
mod provider;
mod serve;

pub(crate) use serve::{bind, serve};
