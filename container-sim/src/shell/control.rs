//! Runs the entries of the shell's queue: decides about rounds of loops and arms of conditions, and bounds the rounds.

use super::compound::{Compound, ForValues, Item, prepend};
use super::memory::Reservation;
use super::parse::List;
use super::work::COMMAND_WORK;
use super::{Shell, ShellStep};
use crate::limits::{LOOP_ROUND, LOOP_ROUNDS, NESTED_ROUNDS};
use std::sync::Arc;

impl Shell {
    pub(super) fn item(&mut self, item: Item) {
        match item {
            Item::Command(connector, command) => self.command(connector, &command),
            Item::Negate => self.code = u8::from(self.code == 0),
            Item::Condition(Compound::While(until, condition, body), code) => {
                if (self.code == 0) == until {
                    return self.code = code;
                }
                self.queue.push_front(Item::Round(Compound::While(until, condition, Arc::clone(&body))));
                prepend(&mut self.queue, &body);
            }
            Item::Round(Compound::While(until, condition, body)) if self.round() => {
                let list = Arc::clone(&condition);
                self.queue.push_front(Item::Condition(Compound::While(until, condition, body), self.code));
                prepend(&mut self.queue, &list);
            }
            Item::Next(name, mut rest, body) => {
                if let Some(value) = rest.values.pop_front()
                    && self.round()
                {
                    let code = self.code;
                    self.assign(&format!("{name}={value}"));
                    self.code = code;
                    self.queue.push_front(Item::Next(name, rest, Arc::clone(&body)));
                    prepend(&mut self.queue, &body);
                }
            }
            Item::Arm(arms, otherwise, at) => self.arm(&arms, otherwise, at),
            // Only `while` has these.
            Item::Condition(..) | Item::Round(_) => {}
        }
    }

    /// Goes on after the condition of an arm of `if`.
    fn arm(&mut self, arms: &Arc<[(List, List)]>, otherwise: List, at: usize) {
        if self.code == 0 {
            return prepend(&mut self.queue, &arms[at].1);
        }
        match arms.get(at + 1) {
            Some((condition, _)) => {
                self.queue.push_front(Item::Arm(Arc::clone(arms), otherwise, at + 1));
                prepend(&mut self.queue, condition);
            }
            None => {
                self.code = 0;
                prepend(&mut self.queue, &otherwise);
            }
        }
    }

    /// Counts a round of a loop. Returns false if the command may have no more.
    fn round(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        self.environment.work.spend(COMMAND_WORK);
        if self.depth > 0 && self.rounds > NESTED_ROUNDS {
            self.print(2, b"sh: a loop in a nested shell has too many rounds\n".to_vec());
            self.queue.clear();
            self.code = 2;
            return false;
        }
        if self.depth == 0 && self.rounds > LOOP_ROUNDS {
            self.steps.push_back(ShellStep::Sleep(LOOP_ROUND));
            // `pass` counts from the beginning again.
            self.rounds = LOOP_ROUNDS;
        }
        true
    }

    pub(super) fn compound(&mut self, compound: &Compound) {
        match compound {
            Compound::While(_, condition, _) => {
                let list = Arc::clone(condition);
                self.queue.push_front(Item::Condition(compound.clone(), 0));
                prepend(&mut self.queue, &list);
            }
            Compound::For(name, words, body) => {
                let mut room = Reservation::new(&self.environment.memory);
                let values = words.iter().flat_map(|word| self.fields(word, &mut room)).collect();
                self.code = 0;
                let values = ForValues { values, _room: room };
                self.queue.push_front(Item::Next(name.clone(), values, Arc::clone(body)));
            }
            Compound::If(arms, otherwise) => {
                self.queue.push_front(Item::Arm(Arc::clone(arms), otherwise.clone(), 0));
                prepend(&mut self.queue, &arms[0].0);
            }
            Compound::Group(list) => prepend(&mut self.queue, list),
        }
    }
}
