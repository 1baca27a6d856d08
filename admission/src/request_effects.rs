//! [`RequestEffects`]: what plugins did for one request outside its decision. A decision may be repeated, but
//! a request is charged to the limits of events once, and its images are reviewed once.

use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;

/// What plugins remember of one request for its repeated decisions: one value of each type, which belongs to
/// the plugin that declares the type.
#[derive(Default)]
pub(crate) struct RequestEffects(Mutex<Vec<Arc<dyn Any + Send + Sync>>>);

impl RequestEffects {
    /// The value of this type, which is made when it is first needed.
    pub(super) fn of<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock();
        let known = values.iter().find_map(|value| value.clone().downcast::<T>().ok());
        known.unwrap_or_else(|| {
            let new = Arc::<T>::default();
            values.push(new.clone());
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    #[test]
    fn each_type_has_one_value_for_a_request() {
        let effects = RequestEffects::default();
        effects.of::<OnceLock<u8>>().set(1).unwrap();
        effects.of::<OnceLock<u16>>().set(2).unwrap();
        assert_eq!(effects.of::<OnceLock<u8>>().get(), Some(&1));
        assert_eq!(effects.of::<OnceLock<u16>>().get(), Some(&2));
    }
}
