//! What the servers of the official SDK over HTTP share with ours: how they are told where to listen and when to end.

#[path = "../../http/src/harnessed.rs"]
pub mod harnessed;
