//! The wire of the Model Context Protocol, to look at.
#![allow(missing_docs, unreachable_pub)]

pub mod capture;
pub mod check;
pub mod duration;
mod error;
pub mod fault;
pub mod frames;
pub mod http;
pub mod load;
mod nearest;
pub mod operations;
pub mod pipeline;
pub mod platform;
pub mod relay;
pub mod replay;
pub mod secrets;
pub mod text;
pub mod xml;

pub use error::{Advice, Error};
