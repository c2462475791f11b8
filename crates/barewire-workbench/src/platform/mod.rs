//! All code that differs between operating systems. The rest of the crate is the same on all systems.

mod files;
pub(crate) mod local_socket;
pub(crate) mod output;
pub(crate) mod poll;
pub(crate) mod processes;
pub(crate) mod program;
pub(crate) mod signals;
mod timer;
mod usage;
mod watcher;

pub(crate) use files::{
    file, is_pipe_or_device, is_same_file, lock, nameless_file, private_options, read_at, replace_private, write_at,
};
pub use files::{make_private, write_private};
pub(crate) use processes::exited;
pub use program::StartError;
pub(crate) use program::exit_of;
pub use signals::Signals;
pub(crate) use timer::PreciseTimer;
pub(crate) use usage::own_cpu;
pub use usage::{Usage, usage};
