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

use crate::judge::{Done, Outcome, contains, refused, same, shown, until};
use crate::{Handler, locked};

pub(crate) struct Session {
    pub(crate) client: RunningService<RoleClient, Handler>,
    pub(crate) handler: Handler,
    pub(crate) expected: ProtocolVersion,
}

impl Session {
    pub(crate) fn modern(&self) -> bool {
        self.expected == ProtocolVersion::V_2026_07_28
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<CallToolResult, ServiceError> {
        self.client.call_tool(params(tool, arguments)).await
    }

    pub(crate) async fn say(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        self.call(tool, arguments).await.map(|result| said(&result)).map_err(shown)
    }

    pub(crate) async fn connect(&self) -> Outcome {
        let peer = self.client.peer_info().ok_or("nothing is known of the server")?;
        same(&peer.protocol_version, &self.expected)?;
        peer.server_info.as_ref().ok_or("the server has no name")?;
        peer.capabilities.tools.as_ref().ok_or("no tools declared")?;
        Ok(Done::Here)
    }

    pub(crate) async fn ping(&self) -> Outcome {
        if self.modern() {
            return Ok(Done::NotHere);
        }
        self.client.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map_err(shown)?;
        Ok(Done::Here)
    }

    pub(crate) async fn list_tools(&self) -> Outcome {
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        for name in SURFACE["tools"].as_array().expect("a list of tools") {
            let tool = tools.iter().find(|tool| tool.name == text(name)).ok_or_else(|| format!("no tool {name}"))?;
            same(&tool.input_schema.get("type"), &Some(&json!("object")))?;
        }
        Ok(Done::Here)
    }

    pub(crate) async fn echo(&self) -> Outcome {
        let echo = &SURFACE["echo"];
        same(&self.say(&text(&echo["tool"]), &echo["arguments"]).await?, &text(&echo["text"]))
    }

    pub(crate) async fn add(&self) -> Outcome {
        let add = &SURFACE["add"];
        let said = self.say(&text(&add["tool"]), &add["arguments"]).await?;
        let number = said.trim_end_matches('.').rsplit(' ').next().unwrap_or_default();
        same(&number.parse().ok(), &add["sum"].as_f64())
    }

    pub(crate) async fn fail(&self) -> Outcome {
        let fail = &SURFACE["fail"];
        let result = self.call(&text(&fail["tool"]), &fail["arguments"]).await.map_err(shown)?;
        same(&result.is_error, &Some(true))?;
        contains(&said(&result), &text(&fail["contains"]))
    }

    pub(crate) async fn image(&self) -> Outcome {
        let result = self.call(&text(&SURFACE["image"]["tool"]), &json!({})).await.map_err(shown)?;
        let image = result.content.iter().find_map(|block| match block {
            ContentBlock::Image(image) => Some(image),
            _ => None,
        });
        same(&image.map(|image| image.mime_type.clone()), &Some(text(&SURFACE["image"]["mimeType"])))
    }

    pub(crate) async fn unknown_tool(&self) -> Outcome {
        refused(self.call("no-such-tool", &json!({})).await, -32602)
    }

    pub(crate) async fn bad_arguments(&self) -> Outcome {
        // A protocol error up to 2025-06-18, a tool's own error since; both say that it was not done.
        match self.call(&text(&SURFACE["add"]["tool"]), &SURFACE["add"]["bad"]).await {
            Ok(result) => same(&result.is_error, &Some(true)),
            refusal => refused(refusal, -32602),
        }
    }

    pub(crate) async fn progress(&self) -> Outcome {
        locked(&self.handler.progress).clear();
        self.say(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["short"]).await?;
        let seen = locked(&self.handler.progress).clone();
        if seen.len() < 2 || !seen.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("progress {seen:?}"));
        }
        Ok(Done::Here)
    }

    pub(crate) async fn cancellation(&self) -> Outcome {
        let request = CallToolRequest::new(params(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["long"]));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let call = self.client.send_cancellable_request(request, options).await.map_err(shown)?;
        sleep(Duration::from_millis(200)).await;
        call.cancel(Some("changed my mind".to_owned())).await.map_err(shown)?;
        self.echo().await
    }

    pub(crate) async fn elicitation(&self, action: ElicitationAction) -> Outcome {
        // elicitation/create came with 2025-06-18.
        if self.expected < ProtocolVersion::V_2025_06_18 {
            return Ok(Done::NotHere);
        }
        locked(&self.handler.asked).clear();
        let accepted = matches!(action, ElicitationAction::Accept);
        let answer = ElicitResult::new(action);
        *locked(&self.handler.answer) = match accepted {
            true => answer.with_content(SURFACE["greet"]["answer"].clone()),
            false => answer,
        };
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(shown)?;
        same(&locked(&self.handler.asked).len(), &1)?;
        if !accepted {
            return same(&result.is_error, &Some(true));
        }
        let field = &locked(&self.handler.asked)[0]["properties"][text(&SURFACE["greet"]["field"])]["type"].clone();
        same(field, &json!("string"))?;
        contains(&said(&result), &text(&SURFACE["greet"]["contains"]))
    }

    pub(crate) async fn elicitation_before_there_was_one(&self) -> Outcome {
        if self.expected >= ProtocolVersion::V_2025_06_18 {
            return Ok(Done::NotHere);
        }
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(shown)?;
        same(&result.is_error, &Some(true))
    }

    pub(crate) async fn list_resources(&self) -> Outcome {
        let resources = self.client.list_all_resources().await.map_err(shown)?;
        for uri in [&SURFACE["about"], &SURFACE["clock"]["uri"]] {
            resources.iter().find(|one| one.uri == text(uri)).ok_or_else(|| format!("{uri} not in {resources:?}"))?;
        }
        Ok(Done::Here)
    }

    pub(crate) async fn list_templates(&self) -> Outcome {
        let templates = self.client.list_all_resource_templates().await.map_err(shown)?;
        let wanted = text(&SURFACE["template"]["uri"]);
        templates.iter().find(|one| one.uri_template == wanted).ok_or_else(|| format!("{templates:?}"))?;
        Ok(Done::Here)
    }

    pub(crate) async fn read(&self) -> Outcome {
        let template = &SURFACE["template"];
        let reads = [(&SURFACE["about"], String::new()), (&template["expanded"], text(&template["contains"]))];
        for (uri, contained) in reads {
            let request = ReadResourceRequestParams::new(text(uri));
            let result = self.client.read_resource(request).await.map_err(shown)?;
            match result.contents.first() {
                Some(ResourceContents::TextResourceContents { uri: given, text: content, .. }) => {
                    same(given, &text(uri))?;
                    contains(content, &contained)?;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(Done::Here)
    }

    pub(crate) async fn unknown_resource(&self) -> Outcome {
        let request = ReadResourceRequestParams::new(text(&SURFACE["nowhere"]));
        refused(self.client.read_resource(request).await, if self.modern() { -32602 } else { -32002 })
    }

    #[allow(deprecated)]
    pub(crate) async fn ticking(&self) -> Outcome {
        let clock = text(&SURFACE["clock"]["uri"]);
        if self.modern() {
            let mut filter = SubscriptionFilter::default();
            filter.resource_subscriptions = Some(vec![clock.clone()]);
            let mut subscription = self.client.listen(filter.clone()).await.map_err(shown)?;
            same(subscription.acknowledged(), &filter)?;
            let next = timeout(Duration::from_secs(5), subscription.next()).await.map_err(|_| "no update in 5 s")?;
            match next.map_err(shown)? {
                Some(ServerNotification::ResourceUpdatedNotification(update)) => same(&update.params.uri, &clock)?,
                other => return Err(format!("{other:?}")),
            };
            subscription.cancel().await.map_err(shown)?;
        } else {
            let before = locked(&self.handler.updated).len();
            self.client.subscribe(SubscribeRequestParams::new(&clock)).await.map_err(shown)?;
            until(Duration::from_secs(5), || locked(&self.handler.updated).len() > before).await?;
            same(&locked(&self.handler.updated).last().cloned(), &Some(clock.clone()))?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(&clock)).await.map_err(shown)?;
        }
        sleep(Duration::from_millis(200)).await; // What was on its way.
        let after = locked(&self.handler.updated).len();
        sleep(Duration::from_millis(1300)).await;
        same(&locked(&self.handler.updated).len(), &after)
    }

    pub(crate) async fn list_changed(&self) -> Outcome {
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| tool.name == "grow") {
            return Ok(Done::NotHere);
        }
        if self.modern() {
            let mut filter = SubscriptionFilter::default();
            filter.tools_list_changed = Some(true);
            let mut subscription = self.client.listen(filter).await.map_err(shown)?;
            self.say("grow", &json!({})).await?;
            let next = timeout(Duration::from_secs(2), subscription.next()).await.map_err(|_| "no change in 2 s")?;
            next.map_err(shown)?.ok_or("the subscription ended")?;
            subscription.cancel().await.map_err(shown)?;
        } else {
            self.say("grow", &json!({})).await?;
            until(Duration::from_secs(2), || *locked(&self.handler.grown) > 0).await?;
        }
        Ok(Done::Here)
    }

    pub(crate) async fn mirrored(&self) -> Outcome {
        // The list is what tells a client which arguments go into headers too.
        let mirror = &SURFACE["mirror"];
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| mirror["tool"] == *tool.name) {
            return Ok(Done::NotHere);
        }
        same(&self.say(&text(&mirror["tool"]), &mirror["arguments"]).await?, &text(&mirror["text"]))
    }

    pub(crate) async fn list_prompts(&self) -> Outcome {
        let prompts = self.client.list_all_prompts().await.map_err(shown)?;
        let wanted = &SURFACE["prompt"];
        let prompt = prompts.iter().find(|one| one.name == text(&wanted["name"])).ok_or("no such prompt")?;
        let named = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
        same(
            &named.collect::<Vec<_>>(),
            &wanted["arguments"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect(),
        )
    }

    pub(crate) async fn get_prompt(&self) -> Outcome {
        let wanted = &SURFACE["prompt"];
        let mut request = GetPromptRequestParams::new(text(&wanted["name"]));
        request.arguments = wanted["arguments"].as_object().cloned();
        let result = self.client.get_prompt(request).await.map_err(shown)?;
        match result.messages.first().map(|message| &message.content) {
            Some(ContentBlock::Text(content)) => contains(&content.text, &text(&wanted["contains"])),
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) async fn unknown_prompt(&self) -> Outcome {
        refused(self.client.get_prompt(GetPromptRequestParams::new("no-such-prompt")).await, -32602)
    }

    pub(crate) async fn completion(&self) -> Outcome {
        let wanted = &SURFACE["completion"];
        let (prompt, argument) = (text(&wanted["prompt"]), text(&wanted["argument"]));
        let complete = |value| self.client.complete_prompt_simple(&prompt, &argument, value);
        let every = complete(String::new()).await.map_err(shown)?;
        let first = every.first().ok_or("nothing to complete with")?;
        let some = complete(first.chars().take(1).collect()).await.map_err(shown)?;
        same(&some.contains(first), &true)
    }
}

fn params(tool: &str, arguments: &Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

fn said(result: &CallToolResult) -> String {
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
