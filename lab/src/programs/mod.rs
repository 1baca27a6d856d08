//! Programs: tested programs that the server starts as its children. `control` is what plans do with them.

pub mod control;

pub use control::{ProgramControl, ProgramSignal};
