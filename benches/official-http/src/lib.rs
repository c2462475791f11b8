//! The code that the official SDK's servers over HTTP share with ours: where they listen and when they exit.

#[path = "../../http/src/harnessed.rs"]
pub mod harnessed;
