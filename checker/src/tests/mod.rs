//! Tests of the checker: good histories pass, every mutation is detected and named, and on small histories the search
//! agrees with the reference checker.

mod brute;
mod file;
mod generate;
mod leases;
mod mutants;
mod scale;
mod small;
