//! Words on a command line -> a request to an MCP server, and the reason why there is no answer. `call` and `bench` share it.

pub(crate) mod arguments;
pub(crate) mod given;
pub(crate) mod no_answer;
pub(crate) mod params;
pub(crate) mod request;
pub(crate) mod schema;
