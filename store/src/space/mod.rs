//! Limits on space: the quota on stored data, free space of the file system, and the alarms that refuse writes when
//! either is exhausted.
//!
//! `quota` accounts for stored bytes, `disk_space` watches the file system and keeps a reserve file, and `alarm` has the
//! alarms, which also report damaged data. `runtime::writer` refuses requests; nothing here refuses any.

pub(crate) mod alarm;
pub(crate) mod disk_space;
pub(crate) mod quota;
