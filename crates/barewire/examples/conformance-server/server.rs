//! The server with all its tools, resources and prompts.

use barewire::Server;

use crate::{changes, prompts, questions, resources, rounds, tasks, tools};

/// Returns the server with all its tools, resources and prompts.
pub(crate) fn server() -> Server {
    let server = Server::new("conformance-server", env!("CARGO_PKG_VERSION"))
        .title("What the conformance suite looks for")
        .instructions("Every tool says which scenario it is for.");
    let server = questions::add(tools::add(server));
    let server = prompts::add(resources::add(rounds::add(server)));
    changes::add(tasks::add(server))
}
