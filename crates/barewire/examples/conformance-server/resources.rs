//! Resources: text, bytes, a template for many resources, and a resource that changes.

use barewire::Server;
use barewire::server::{Resource, Template};
use serde::Deserialize;
use serde_json::json;

use crate::tools::DOT;

pub(crate) fn add(server: Server) -> Server {
    server
        .with(
            Resource::text("test://static-text", "static-text", "This is the content of the static text resource.")
                .description("Text that stays as it is")
                .mime_type("text/plain"),
        )
        .with(
            Resource::bytes("test://static-binary", "static-binary", DOT)
                .description("A picture that stays as it is")
                .mime_type("image/png"),
        )
        .with(
            Resource::text(WATCHED, "watched-resource", "Something to watch.")
                .description("Text that changes when the tools do: subscribe to it")
                .mime_type("text/plain"),
        )
        .with(
            Template::new("test://template/{id}/data", "template", |Id { id }| async move {
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string()
            })
            .description("Data for any id")
            .mime_type("application/json"),
        )
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

/// The resource that clients subscribe to.
pub(crate) const WATCHED: &str = "test://watched-resource";
