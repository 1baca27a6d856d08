//! The judge is judged: good histories pass, every way of spoiling one is found and named, and on small histories the search
//! says what trying everything says.

mod brute;
mod file;
mod generate;
mod leases;
mod mutants;
mod scale;
mod small;
