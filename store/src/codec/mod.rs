//! Every stored byte is made and read here, one file per kind of record. Pure: no files, no clock.

pub(crate) mod kv;
