//! Load for a server on stdio or over HTTP, and how it bears it.

pub mod alarm;
pub mod histogram;
pub mod judge;
pub mod lend;
pub mod load;
pub mod outstanding;
pub mod process;
pub mod slice;
pub mod tally;
pub mod template;
