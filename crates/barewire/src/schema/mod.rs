//! Rust types <-> JSON Schema: what a tool's arguments are described by, and what they are checked by.
//!
//! ```text
//! type ─ describe ─ schema that clients see          form: the part of it that a user can be asked with
//!   └─── reads ───┐
//!        schema ─ compile ─ rules ─ check            only what the type does not check by itself
//! JSON ─ arguments ─ your handler
//! ```

#[cfg(feature = "jsonschema")]
pub(crate) mod any_schema;
mod arguments;
pub(crate) mod canonical;
mod check;
mod compile;
mod constraints;
mod describe;
mod form;
mod messages;
mod pattern;
mod rules;
mod type_shape;
#[cfg(feature = "jsonschema")]
mod validator;

pub(crate) use arguments::{BadArguments, read};
pub(crate) use constraints::Constraints;
pub(crate) use describe::{input_of, output_of};
pub(crate) use form::{Form, form_of};
#[cfg(feature = "jsonschema")]
pub(crate) use validator::Validator;
