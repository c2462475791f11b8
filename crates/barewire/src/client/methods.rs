//! The requests of MCP, one function each, with typed params and results.

use barewire_proto::mcp::{
    CallToolResult, CompleteParams, CompleteResult, DiscoverResult, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel, ReadResourceResult,
    ServerCapability, SetLevelParams, SubscriptionFilter,
};
use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::notifications::missing_from;
use super::pages::{Pages, page};
use super::params::{CallParams, Members, arguments};
use super::request::Request;
use super::{Client, ClientError};
use crate::peer::Raw;

/// Tools.
impl Client {
    /// Lists all tools.
    pub fn list_tools(&self) -> Pages<ListToolsResult> {
        Pages::new(self)
    }

    /// Lists one page of tools: the first page, or the page at `cursor`.
    pub fn list_tools_page(&self, cursor: Option<&str>) -> Request<ListToolsResult> {
        page(self, cursor)
    }

    /// Calls a tool. `arguments` must serialize to an object, or be `()`.
    ///
    /// A failure of the tool itself is returned as a result and not as an `Err`; see [`CallToolResult::is_error`].
    ///
    /// If the server runs the call as a task, the client waits for the result of the task, however long it takes:
    /// timeouts are for each request, not for the task. Dropping the future cancels the task. To get the result later,
    /// use [`Self::start_tool`].
    pub fn call_tool(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Request<CallToolResult> {
        self.with_arguments("tools/call", name.as_ref(), &arguments)
    }

    fn with_arguments<R>(&self, method: &'static str, name: &str, given: &impl Serialize) -> Request<R> {
        let params = arguments(given)
            .and_then(|arguments| CallParams::members([("name", to_raw_value(name)), ("arguments", Ok(arguments))]));
        Request::new(self, method, params)
    }
}

/// Resources.
impl Client {
    /// Lists all resources.
    pub fn list_resources(&self) -> Pages<ListResourcesResult> {
        Pages::new(self)
    }

    /// Lists one page of resources: the first page, or the page at `cursor`.
    pub fn list_resources_page(&self, cursor: Option<&str>) -> Request<ListResourcesResult> {
        page(self, cursor)
    }

    /// Lists all resource templates.
    pub fn list_resource_templates(&self) -> Pages<ListResourceTemplatesResult> {
        Pages::new(self)
    }

    /// Lists one page of resource templates: the first page, or the page at `cursor`.
    pub fn list_resource_templates_page(&self, cursor: Option<&str>) -> Request<ListResourceTemplatesResult> {
        page(self, cursor)
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl AsRef<str>) -> Request<ReadResourceResult> {
        Request::new(self, "resources/read", CallParams::members([("uri", to_raw_value(uri.as_ref()))]))
    }

    /// Subscribes to changes of a resource, in either era. The changes arrive in [`Self::notifications`].
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<(), ClientError> {
        let uri = uri.into();
        let link = self.0.link().await?;
        let revision = link.server.revision;
        if !revision.has_listen() {
            let _: Raw = self.request(SUBSCRIBE, json!({ "uri": uri })).await?;
            self.0.subscriptions().insert(uri, None);
            return Ok(());
        }
        let needed = ServerCapability::ResourcesSubscribe;
        if !self.0.settings.lenient && !link.server.capabilities.has(needed) {
            let method = SUBSCRIBE.to_owned();
            return Err(ClientError::NotOffered { method, capability: needed.as_str() });
        }
        let is_open =
            |handle: &Option<super::listen::ListenHandle>| handle.as_ref().is_some_and(|handle| !handle.has_ended());
        if self.0.subscriptions().get(&uri).is_some_and(is_open) {
            return Ok(());
        }
        let filter = SubscriptionFilter::default().resource_subscriptions([uri.clone()]);
        let (handle, _, acknowledged) = self.0.listen(filter.clone()).await?;
        if !missing_from(&filter, &acknowledged).is_empty() {
            return Err(ClientError::fault(
                super::listen::LISTEN,
                format!("it declares resources.subscribe, but does not acknowledge the subscription to {uri:?}"),
            ));
        }
        self.0.subscriptions().insert(uri, Some(handle));
        Ok(())
    }

    /// Ends the subscription to a resource.
    pub async fn unsubscribe(&self, uri: impl AsRef<str>) -> Result<(), ClientError> {
        let uri = uri.as_ref();
        // Dropping the handle cancels the listen request.
        drop(self.0.subscriptions().remove(uri));
        if self.0.link().await?.server.revision.has_listen() {
            return Ok(());
        }
        let _: Raw = self.request("resources/unsubscribe", json!({ "uri": uri })).await?;
        Ok(())
    }
}

/// Prompts and completion.
impl Client {
    /// Lists all prompts.
    pub fn list_prompts(&self) -> Pages<ListPromptsResult> {
        Pages::new(self)
    }

    /// Lists one page of prompts: the first page, or the page at `cursor`.
    pub fn list_prompts_page(&self, cursor: Option<&str>) -> Request<ListPromptsResult> {
        page(self, cursor)
    }

    /// Returns the messages of a prompt. `arguments` must serialize to an object of strings, or be `()`.
    pub fn get_prompt(&self, name: impl AsRef<str>, arguments: impl Serialize) -> Request<GetPromptResult> {
        self.with_arguments("prompts/get", name.as_ref(), &arguments)
    }

    /// Returns completions for an argument of a prompt or of a resource template.
    pub fn complete(&self, params: CompleteParams) -> Request<CompleteResult> {
        Request::new(self, "completion/complete", CallParams::from_value(&params))
    }
}

/// Logging, ping, roots, and methods by name.
impl Client {
    /// Requests log messages of this level and above. The messages arrive in [`Self::notifications`].
    ///
    /// A legacy server receives the level once. For a modern server, the client adds the level to every later request,
    /// and the server sends the log messages that belong to that request.
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), ClientError> {
        let link = self.0.link().await?;
        if link.server.revision.is_modern() {
            let needed = ServerCapability::Logging;
            if !self.0.settings.lenient && !link.server.capabilities.has(needed) {
                let method = "logging".to_owned();
                return Err(ClientError::NotOffered { method, capability: needed.as_str() });
            }
        } else {
            let _: Raw = self.request("logging/setLevel", SetLevelParams::new(level)).await?;
        }
        self.0.set_log_level(level);
        Ok(())
    }

    /// Sends `ping` to a legacy server. The modern era has no `ping`: use any other request, such as
    /// [`Self::discover`].
    pub fn ping(&self) -> Request<Raw> {
        Request::new(self, "ping", Ok(CallParams::None))
    }

    /// Sends `server/discover` to a modern server once more. [`Self::server_info`] holds the response that was received
    /// while connecting.
    pub fn discover(&self) -> Request<DiscoverResult> {
        Request::new(self, "server/discover", Ok(CallParams::None))
    }

    /// Notifies a legacy server that the roots have changed, so that the server requests them again. To a modern server
    /// nothing is sent, because it requests roots when it needs them.
    pub async fn roots_changed(&self) -> Result<(), ClientError> {
        if self.0.settings.handlers.roots.is_none() {
            let what = "this client has no roots; set them with .roots(..) on the builder";
            return Err(ClientError::Params(what.to_owned()));
        }
        if self.0.link().await?.server.revision.is_modern() {
            return Ok(());
        }
        self.notify("notifications/roots/list_changed", ()).await
    }

    /// Sends a request with any method. `params` must serialize to an object, or be `()`. The client adds the `_meta`
    /// members that the revision requires.
    pub fn request(&self, method: impl Into<String>, params: impl Serialize) -> Request<Raw> {
        Request::new(self, method.into(), CallParams::from_value(&params))
    }

    /// Sends a notification with any method.
    pub async fn notify(&self, method: impl AsRef<str>, params: impl Serialize) -> Result<(), ClientError> {
        let method = method.as_ref();
        let params = CallParams::from_value(&params).and_then(|params| params.with(Members::new(), Members::new()));
        let link = self.0.link_for(method).await?;
        let sent = link.peer.notify(method, params.map_err(ClientError::Params)?).await;
        sent.map_err(|error| ClientError::from_call(method, None, error))
    }
}

const SUBSCRIBE: &str = "resources/subscribe";
