//! Adapters for sources: type-erased, or with transformed objects.

mod dynamic;
mod map;
#[cfg(test)]
mod tests;

pub use dynamic::DynListerWatcher;
pub use map::Map;
