//! A clone of a server is independent; all connections of one server share it.

use barewire::Server;
use barewire::server::Tool;
use barewire::testkit;

fn tool(name: &str) -> Tool {
    Tool::new(name, "Answers", || async { "yes" })
}

/// Returns the title and the names of the tools, as a client of the server sees them.
async fn title_and_tools(server: &Server) -> (Option<String>, Vec<String>) {
    let client = testkit::connect(server).await;
    let title = client.server_info().implementation.expect("given").title;
    let tools = client.list_tools().await.expect("a list");
    (title, tools.into_iter().map(|tool| tool.name).collect())
}

#[tokio::test]
async fn methods_of_a_clone_change_only_the_clone() {
    let base = Server::new("base", "1").with(tool("one"));
    let clone = base.clone().title("Clone").with(tool("two"));
    let base = base.with(tool("three"));
    assert_eq!(title_and_tools(&base).await, (None, vec!["one".to_owned(), "three".to_owned()]));
    assert_eq!(title_and_tools(&clone).await, (Some("Clone".to_owned()), vec!["one".to_owned(), "two".to_owned()]));
}

#[tokio::test]
async fn a_handle_changes_all_connections_of_its_server_and_no_clone() {
    let server = Server::new("base", "1").with(tool("one"));
    let handle = server.handle();
    let clone = server.clone();
    let client = testkit::connect(&server).await;
    handle.add(tool("two"));
    let names: Vec<String> = client.list_tools().await.expect("a list").into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["one", "two"], "a connection from before");
    assert_eq!(title_and_tools(&server).await.1, ["one", "two"], "and one from after it");
    assert_eq!(title_and_tools(&clone).await.1, ["one"]);
    // A handle that is taken while a server is being built changes the finished server.
    let server = server.with(tool("three"));
    assert!(handle.remove_tool("three"));
    assert_eq!(title_and_tools(&server).await.1, ["one", "two"]);
}
