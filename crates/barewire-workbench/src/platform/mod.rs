//! What differs between operating systems.

mod files;
pub(crate) mod processes;
mod timer;
mod usage;

pub use files::write_private;
pub(crate) use timer::PreciseTimer;
pub(crate) use usage::own_cpu;
pub use usage::{Usage, usage};
