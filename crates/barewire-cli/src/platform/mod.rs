//! All code that depends on the operating system. The rest of this crate does not.

mod files;
mod folders;
mod process;
mod signals;

pub(crate) use files::{
    FolderLock, LogSocket, copy_owner, copy_permissions, exchange, has_program_code, is_device, is_executable,
    is_same_file, other_names, owner, path, private_folder, private_options, try_lock_folder,
};
pub(crate) use folders::{NAME, captures, home};
pub(crate) use process::{end_by, end_like, is_stdout, stdin_ended, take_stdio};
pub(crate) use signals::Signals;
