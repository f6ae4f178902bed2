//! Values that callers keep with a statement or a transaction, under numbers of their own.

use std::any::Any;
use std::sync::Arc;

use hobt_instruments::schedule::Mutex;

/// Values by number, each made when it is first asked for.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<(u64, Arc<dyn Any + Send + Sync>)>>);

impl Notes {
    /// The value of a number.
    ///
    /// # Panics
    /// If the number was used with another type.
    pub(crate) fn get<T: Any + Send + Sync>(&self, number: u64, make: impl FnOnce() -> T) -> Arc<T> {
        let mut notes = self.0.lock();
        if let Some((_, note)) = notes.iter().find(|(known, _)| *known == number) {
            return Arc::clone(note).downcast().expect("one number is of one type");
        }
        let made = Arc::new(make());
        notes.push((number, Arc::<T>::clone(&made)));
        made
    }
}
