//! What differs between operating systems.

mod files;
pub mod processes;

pub use files::write_private;
