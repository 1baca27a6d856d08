//! Load of Services: the objects of the kind ServiceLoad, and what the pods behind a Service use because of it. Pure: `curve` gives the
//! requests a second at a time, `spec` reads the objects, `share` divides the requests among the ready pods.

mod curve;
pub(crate) mod record;
pub(crate) mod share;
pub(crate) mod spec;
