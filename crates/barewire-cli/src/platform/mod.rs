//! Everything that differs between operating systems. No other code of this crate depends on the system.

mod files;
mod folders;
mod process;
mod signals;

pub(crate) use files::{
    LogSocket, copy_owner, copy_permissions, is_device, is_same_file, other_names, owner, path, private_folder,
    private_options,
};
pub(crate) use folders::{captures, home, settings};
pub(crate) use process::{end_like, is_stdout, take_stdio};
pub(crate) use signals::Signals;
