//! The compiled selectors of classes and claims. Objects with the same expression share one program; a program
//! lives as long as an object has its expression, so that the objects of the cluster bound their number.

use kstore_api::expression::device::Selector;
use std::collections::BTreeMap;

/// Compiled selectors by expression, with the number of objects that have it.
#[derive(Debug, Default)]
pub(super) struct Selectors(BTreeMap<String, (usize, Result<Selector, String>)>);

impl Selectors {
    /// Compiles the expression unless it is compiled, and counts a user.
    pub(super) fn retain(&mut self, text: &str) {
        match self.0.get_mut(text) {
            Some((users, _)) => *users += 1,
            None => {
                self.0.insert(text.to_owned(), (1, Selector::compile(text)));
            }
        }
    }

    /// Ends the use of an expression.
    pub(super) fn release(&mut self, text: &str) {
        let (users, _) = self.0.get_mut(text).expect("an expression was counted before");
        *users -= 1;
        if *users == 0 {
            self.0.remove(text);
        }
    }

    /// The program of an expression of an object, or the error of compiling it.
    pub(super) fn get(&self, text: &str) -> Result<&Selector, &str> {
        let (_, compiled) = &self.0[text];
        compiled.as_ref().map_err(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
