//! The cases, each a method of a session with the server.

use std::time::Duration;

use barewire_interop_rmcp::SURFACE;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock, ElicitResult,
    ElicitationAction, GetPromptRequestParams, PingRequest, ProtocolVersion, ReadResourceRequestParams,
    ResourceContents, ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{PeerRequestOptions, RunningService, ServiceError};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::report::{CaseOutcome, CaseResult, debug_text, expect_contains, expect_equal, expect_error, wait_until};
use crate::{Handler, locked};

pub(crate) struct Session {
    pub(crate) client: RunningService<RoleClient, Handler>,
    pub(crate) handler: Handler,
    pub(crate) expected: ProtocolVersion,
}

impl Session {
    pub(crate) fn is_modern(&self) -> bool {
        self.expected == ProtocolVersion::V_2026_07_28
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<CallToolResult, ServiceError> {
        self.client.call_tool(params(tool, arguments)).await
    }

    pub(crate) async fn call_for_text(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        self.call(tool, arguments).await.map(|result| text_of(&result)).map_err(debug_text)
    }

    pub(crate) async fn connect(&self) -> CaseResult {
        let peer = self.client.peer_info().ok_or("the server sent no description")?;
        expect_equal(&peer.protocol_version, &self.expected)?;
        peer.server_info.as_ref().ok_or("the server has no name")?;
        peer.capabilities.tools.as_ref().ok_or("no tools declared")?;
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn ping(&self) -> CaseResult {
        if self.is_modern() {
            return Ok(CaseOutcome::Skipped);
        }
        self.client.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map_err(debug_text)?;
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn list_tools(&self) -> CaseResult {
        let tools = self.client.list_all_tools().await.map_err(debug_text)?;
        for name in SURFACE["tools"].as_array().expect("a list of tools") {
            let tool = tools.iter().find(|tool| tool.name == text(name)).ok_or_else(|| format!("no tool {name}"))?;
            expect_equal(&tool.input_schema.get("type"), &Some(&json!("object")))?;
        }
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn echo(&self) -> CaseResult {
        let echo = &SURFACE["echo"];
        expect_equal(&self.call_for_text(&text(&echo["tool"]), &echo["arguments"]).await?, &text(&echo["text"]))
    }

    pub(crate) async fn add(&self) -> CaseResult {
        let add = &SURFACE["add"];
        let reply = self.call_for_text(&text(&add["tool"]), &add["arguments"]).await?;
        let number = reply.trim_end_matches('.').rsplit(' ').next().unwrap_or_default();
        expect_equal(&number.parse().ok(), &add["sum"].as_f64())
    }

    pub(crate) async fn fail(&self) -> CaseResult {
        let fail = &SURFACE["fail"];
        let result = self.call(&text(&fail["tool"]), &fail["arguments"]).await.map_err(debug_text)?;
        expect_equal(&result.is_error, &Some(true))?;
        expect_contains(&text_of(&result), &text(&fail["contains"]))
    }

    pub(crate) async fn image(&self) -> CaseResult {
        let result = self.call(&text(&SURFACE["image"]["tool"]), &json!({})).await.map_err(debug_text)?;
        let image = result.content.iter().find_map(|block| match block {
            ContentBlock::Image(image) => Some(image),
            _ => None,
        });
        expect_equal(&image.map(|image| image.mime_type.clone()), &Some(text(&SURFACE["image"]["mimeType"])))
    }

    pub(crate) async fn unknown_tool(&self) -> CaseResult {
        expect_error(self.call("no-such-tool", &json!({})).await, -32602)
    }

    pub(crate) async fn bad_arguments(&self) -> CaseResult {
        // A protocol error up to 2025-06-18, a tool error since. Both mean that the call was not carried out.
        match self.call(&text(&SURFACE["add"]["tool"]), &SURFACE["add"]["bad"]).await {
            Ok(result) => expect_equal(&result.is_error, &Some(true)),
            other => expect_error(other, -32602),
        }
    }

    pub(crate) async fn progress(&self) -> CaseResult {
        locked(&self.handler.progress).clear();
        self.call_for_text(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["short"]).await?;
        let seen = locked(&self.handler.progress).clone();
        if seen.len() < 2 || !seen.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("progress {seen:?}"));
        }
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn cancellation(&self) -> CaseResult {
        let request = CallToolRequest::new(params(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["long"]));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let call = self.client.send_cancellable_request(request, options).await.map_err(debug_text)?;
        sleep(Duration::from_millis(200)).await;
        call.cancel(Some("changed my mind".to_owned())).await.map_err(debug_text)?;
        self.echo().await
    }

    pub(crate) async fn elicitation(&self, action: ElicitationAction) -> CaseResult {
        // elicitation/create came with 2025-06-18.
        if self.expected < ProtocolVersion::V_2025_06_18 {
            return Ok(CaseOutcome::Skipped);
        }
        locked(&self.handler.elicitations).clear();
        let accepted = matches!(action, ElicitationAction::Accept);
        let answer = ElicitResult::new(action);
        *locked(&self.handler.answer) = match accepted {
            true => answer.with_content(SURFACE["greet"]["answer"].clone()),
            false => answer,
        };
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(debug_text)?;
        expect_equal(&locked(&self.handler.elicitations).len(), &1)?;
        if !accepted {
            return expect_equal(&result.is_error, &Some(true));
        }
        let field =
            &locked(&self.handler.elicitations)[0]["properties"][text(&SURFACE["greet"]["field"])]["type"].clone();
        expect_equal(field, &json!("string"))?;
        expect_contains(&text_of(&result), &text(&SURFACE["greet"]["contains"]))
    }

    pub(crate) async fn elicitation_in_older_revisions(&self) -> CaseResult {
        if self.expected >= ProtocolVersion::V_2025_06_18 {
            return Ok(CaseOutcome::Skipped);
        }
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(debug_text)?;
        expect_equal(&result.is_error, &Some(true))
    }

    pub(crate) async fn list_resources(&self) -> CaseResult {
        let resources = self.client.list_all_resources().await.map_err(debug_text)?;
        for uri in [&SURFACE["about"], &SURFACE["clock"]["uri"]] {
            resources.iter().find(|one| one.uri == text(uri)).ok_or_else(|| format!("{uri} not in {resources:?}"))?;
        }
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn list_templates(&self) -> CaseResult {
        let templates = self.client.list_all_resource_templates().await.map_err(debug_text)?;
        let wanted = text(&SURFACE["template"]["uri"]);
        templates.iter().find(|one| one.uri_template == wanted).ok_or_else(|| format!("{templates:?}"))?;
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn read(&self) -> CaseResult {
        let template = &SURFACE["template"];
        let reads = [(&SURFACE["about"], String::new()), (&template["expanded"], text(&template["contains"]))];
        for (uri, contained) in reads {
            let request = ReadResourceRequestParams::new(text(uri));
            let result = self.client.read_resource(request).await.map_err(debug_text)?;
            match result.contents.first() {
                Some(ResourceContents::TextResourceContents { uri: given, text: content, .. }) => {
                    expect_equal(given, &text(uri))?;
                    expect_contains(content, &contained)?;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn unknown_resource(&self) -> CaseResult {
        let request = ReadResourceRequestParams::new(text(&SURFACE["nowhere"]));
        expect_error(self.client.read_resource(request).await, if self.is_modern() { -32602 } else { -32002 })
    }

    #[allow(deprecated)]
    pub(crate) async fn ticking(&self) -> CaseResult {
        let clock = text(&SURFACE["clock"]["uri"]);
        if self.is_modern() {
            let mut filter = SubscriptionFilter::default();
            filter.resource_subscriptions = Some(vec![clock.clone()]);
            let mut subscription = self.client.listen(filter.clone()).await.map_err(debug_text)?;
            expect_equal(subscription.acknowledged(), &filter)?;
            let next = timeout(Duration::from_secs(5), subscription.next()).await.map_err(|_| "no update in 5 s")?;
            match next.map_err(debug_text)? {
                Some(ServerNotification::ResourceUpdatedNotification(update)) => {
                    expect_equal(&update.params.uri, &clock)?
                }
                other => return Err(format!("{other:?}")),
            };
            subscription.cancel().await.map_err(debug_text)?;
        } else {
            let before = locked(&self.handler.updated).len();
            self.client.subscribe(SubscribeRequestParams::new(&clock)).await.map_err(debug_text)?;
            wait_until(Duration::from_secs(5), || locked(&self.handler.updated).len() > before).await?;
            expect_equal(&locked(&self.handler.updated).last().cloned(), &Some(clock.clone()))?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(&clock)).await.map_err(debug_text)?;
        }
        sleep(Duration::from_millis(200)).await; // For notifications that were on the way.
        let after = locked(&self.handler.updated).len();
        sleep(Duration::from_millis(1300)).await;
        expect_equal(&locked(&self.handler.updated).len(), &after)
    }

    pub(crate) async fn list_changed(&self) -> CaseResult {
        let tools = self.client.list_all_tools().await.map_err(debug_text)?;
        if !tools.iter().any(|tool| tool.name == "grow") {
            return Ok(CaseOutcome::Skipped);
        }
        if self.is_modern() {
            let mut filter = SubscriptionFilter::default();
            filter.tools_list_changed = Some(true);
            let mut subscription = self.client.listen(filter).await.map_err(debug_text)?;
            self.call_for_text("grow", &json!({})).await?;
            let next = timeout(Duration::from_secs(2), subscription.next()).await.map_err(|_| "no change in 2 s")?;
            next.map_err(debug_text)?.ok_or("the subscription ended")?;
            subscription.cancel().await.map_err(debug_text)?;
        } else {
            self.call_for_text("grow", &json!({})).await?;
            wait_until(Duration::from_secs(2), || *locked(&self.handler.tool_list_changes) > 0).await?;
        }
        Ok(CaseOutcome::Passed)
    }

    pub(crate) async fn mirrored(&self) -> CaseResult {
        // The list tells a client which arguments to repeat in headers.
        let mirror = &SURFACE["mirror"];
        let tools = self.client.list_all_tools().await.map_err(debug_text)?;
        if !tools.iter().any(|tool| mirror["tool"] == *tool.name) {
            return Ok(CaseOutcome::Skipped);
        }
        expect_equal(&self.call_for_text(&text(&mirror["tool"]), &mirror["arguments"]).await?, &text(&mirror["text"]))
    }

    pub(crate) async fn list_prompts(&self) -> CaseResult {
        let prompts = self.client.list_all_prompts().await.map_err(debug_text)?;
        let wanted = &SURFACE["prompt"];
        let prompt = prompts.iter().find(|one| one.name == text(&wanted["name"])).ok_or("no such prompt")?;
        let named = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
        expect_equal(
            &named.collect::<Vec<_>>(),
            &wanted["arguments"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect(),
        )
    }

    pub(crate) async fn get_prompt(&self) -> CaseResult {
        let wanted = &SURFACE["prompt"];
        let mut request = GetPromptRequestParams::new(text(&wanted["name"]));
        request.arguments = wanted["arguments"].as_object().cloned();
        let result = self.client.get_prompt(request).await.map_err(debug_text)?;
        match result.messages.first().map(|message| &message.content) {
            Some(ContentBlock::Text(content)) => expect_contains(&content.text, &text(&wanted["contains"])),
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) async fn unknown_prompt(&self) -> CaseResult {
        expect_error(self.client.get_prompt(GetPromptRequestParams::new("no-such-prompt")).await, -32602)
    }

    pub(crate) async fn completion(&self) -> CaseResult {
        let wanted = &SURFACE["completion"];
        let (prompt, argument) = (text(&wanted["prompt"]), text(&wanted["argument"]));
        let complete = |value| self.client.complete_prompt_simple(&prompt, &argument, value);
        let every = complete(String::new()).await.map_err(debug_text)?;
        let first = every.first().ok_or("nothing to complete with")?;
        let some = complete(first.chars().take(1).collect()).await.map_err(debug_text)?;
        expect_equal(&some.contains(first), &true)
    }
}

fn params(tool: &str, arguments: &Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

fn text_of(result: &CallToolResult) -> String {
    let blocks = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(content) => Some(content.text.as_str()),
        _ => None,
    });
    blocks.collect::<Vec<_>>().join(
        "
",
    )
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string in surface.json").to_owned()
}
