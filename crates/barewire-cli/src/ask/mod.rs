//! The words of a command line -> a request to an MCP server, or the reason why there is no answer. Shared by `call`
//! and `bench`.

pub(crate) mod arguments;
pub(crate) mod given;
pub(crate) mod list;
pub(crate) mod no_answer;
pub(crate) mod params;
pub(crate) mod request;
pub(crate) mod schema;
