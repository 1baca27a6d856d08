//! Kubernetes objects and their rules, pure

<<<<<<< HEAD
pub mod field;
pub mod kind;
pub mod limits;
pub mod meta;
pub mod object;
pub mod status;
=======
pub mod quantity;
pub mod schema;
>>>>>>> api-schema
