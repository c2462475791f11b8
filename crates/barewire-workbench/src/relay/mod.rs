//! A host <-> its server, byte for byte, with a copy of everything for an observation.
//!
//! A relay never waits for its observation. The threads that relay bytes copy them into a bounded queue, and an
//! [`Observation`] takes them from there. If it is too slow, or its disk is full, there is a gap in the capture and none in the
//! stream.

mod after_exit;
pub mod http;
mod observation;
mod pump;
mod queue;
mod stdio;

pub use observation::{Observation, STILL_RELAYED, flush};
pub use stdio::{HostFiles, Program};
