//! Small numbers for large values: a state of the model holds numbers only, and is cheap to compare and to keep.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// Numbers each distinct value, in the order of first sight.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    ids: HashMap<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T: Hash + Eq> Interner<T> {
    pub(crate) fn new() -> Self {
        Self { ids: HashMap::new(), values: Vec::new() }
    }

    pub(crate) fn id(&mut self, value: T) -> u32 {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let id = self.values.len() as u32;
        let value = Rc::new(value);
        self.values.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    pub(crate) fn get(&self, id: u32) -> Rc<T> {
        self.values[id as usize].clone()
    }
}
