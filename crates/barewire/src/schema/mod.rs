//! JSON Schema for Rust types: the schemas of a tool's arguments and results, and the check of arguments.
//!
//! ```text
//! type ─ describe ─ schema that clients see          form: the subset for asking a user
//!   └── type_shape ─┐
//!          schema ─ compile ─ rules ─ check          only the rules that the type does not check itself
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
