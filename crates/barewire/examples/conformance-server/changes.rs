//! Tools that add and remove a tool or a prompt, so that subscribed clients get notifications.

use barewire::Server;
use barewire::server::{Prompt, Tool};

use crate::resources::WATCHED;

pub(crate) fn add(server: Server) -> Server {
    let handle = server.handle();
    let (tools, prompts) = (handle.clone(), handle);
    server
        .tool("test_trigger_tool_change", "Adds a tool, or takes it away again", move || {
            let handle = tools.clone();
            async move {
                handle.updated(WATCHED);
                if handle.remove_tool("test_comes_and_goes") {
                    return "There is a tool less";
                }
                handle.add(Tool::new("test_comes_and_goes", "Is not always there", || async { "Here" }));
                "There is a tool more"
            }
        })
        .tool("test_trigger_prompt_change", "Adds a prompt, or takes it away again", move || {
            let handle = prompts.clone();
            async move {
                if handle.remove_prompt("test_comes_and_goes") {
                    return "There is a prompt less";
                }
                handle.add(Prompt::new("test_comes_and_goes", "Is not always there", || async { "Here" }));
                "There is a prompt more"
            }
        })
}
