//! Answers that clients rely on to the letter, as tables.
