//! Sources made of sources: chosen at run time, or with their objects made into others.

mod dynamic;
mod map;
#[cfg(test)]
mod tests;

pub use dynamic::DynListerWatcher;
pub use map::Map;
