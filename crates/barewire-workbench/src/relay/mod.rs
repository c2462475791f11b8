//! A host <-> its server, byte for byte, with a copy of everything for those who look on.
//!
//! A relay never waits for whoever looks on. The threads that pass bytes on copy them into a bounded queue, and an [`Observation`]
//! takes them from there when it comes to it. If it is too slow, or its disk is full, there is a gap in the capture and none in
//! the stream.

pub mod http;
mod leaving;
mod observation;
mod pump;
mod queue;
mod stdio;

pub use observation::{Observation, STILL_RELAYED, flush};
pub use stdio::{HostFiles, Program};
