//! Who is connected: the number of a connection -> what its caller has shown. Calls that are passed on carry it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::connection::Shown;
use crate::exchange::locked;

#[derive(Default)]
pub struct Guests(Mutex<(u64, HashMap<u64, Arc<Shown>>)>);

impl Guests {
    /// Returns its number, which nobody else gets.
    pub fn put(&self, shown: Arc<Shown>) -> u64 {
        let (last, guests) = &mut *locked(&self.0);
        *last += 1;
        guests.insert(*last, shown);
        *last
    }

    pub fn forget(&self, number: u64) {
        locked(&self.0).1.remove(&number);
    }

    pub fn get(&self, number: u64) -> Option<Arc<Shown>> {
        locked(&self.0).1.get(&number).cloned()
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        locked(&self.0).1.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_left_is_nobody_and_nobody_else_gets_its_number() {
        let guests = Guests::default();
        let shown = || Arc::new(Shown { peer: "a".into(), names: None });
        let first = guests.put(shown());
        assert!(guests.get(first).is_some());
        guests.forget(first);
        let second = guests.put(shown());
        assert!(guests.get(first).is_none() && guests.get(second).is_some());
    }
}
