//! A server with two common faults, for `demo check`: a banner on stdout, and a result that breaks its own schema.

use std::io::{self, Write};

use barewire::Server;
use barewire::server::{Structured, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use crate::{Exit, Failure, failure, log};

#[derive(Deserialize, JsonSchema)]
struct City {
    /// The name of the city
    city: String,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    city: String,
    // The second fault: the schema says that the member is a number, but the result has text.
    #[schemars(with = "f64")]
    celsius: String,
}

pub(super) fn run() -> Result<Exit, Failure> {
    log::start_on_stderr();
    // The first fault: stdout is for messages only, and this line is not a message.
    #[expect(clippy::disallowed_methods, reason = "a server writes messages to stdout")]
    let mut stdout = io::stdout();
    stdout.write_all(b"Weather server listening on stdio...\n").and_then(|()| stdout.flush())?;
    let weather = |City { city }| async move { Structured(Weather { city, celsius: "21 degrees".to_owned() }) };
    let server = Server::new("weather", "1.0").with(Tool::new("weather", "The weather in a city", weather).read_only());
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| failure::runtime_failure(&error))?;
    let served = runtime.block_on(server.serve_stdio());
    served.map(|()| Exit::Clean).map_err(|end| Failure::new(end.to_string()))
}
