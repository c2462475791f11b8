//! The wire of the Model Context Protocol, to look at.
#![allow(missing_docs, unreachable_pub)]

pub mod capture;
mod error;
pub mod frames;
pub mod http;
pub mod load;
pub mod operations;
pub mod processes;
pub mod replay;
pub mod secrets;
pub mod text;

pub use error::{Advice, Error};
