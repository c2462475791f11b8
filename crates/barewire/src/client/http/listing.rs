//! A tool that is not known -> what its arguments are repeated in, by asking the server for its tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barewire_proto::http::{HeaderParams, ResponseKind};
use barewire_proto::json::Json;
use barewire_proto::mcp::key;
use barewire_proto::rpc::{Id, Message, Parsed, Response as Answer, parse, write};
use bytes::Bytes;
use http::Method;

use super::carrier::Carrier;
use super::events::Events;
use super::failure::HttpFailure;
use super::outgoing::{Outgoing, posted};
use super::post::reading;
use crate::client::pages::MAX_PAGES;
use crate::log::quoted;
use crate::peer::CallError;

impl Carrier {
    /// The headers of the tool that `request` calls.
    pub(super) async fn look_up(&self, tool: &str, request: &Outgoing<'_>) -> Arc<HeaderParams> {
        if let Some(known) = self.tools.find(tool) {
            return known;
        }
        // One asks for all: who comes second finds what the first has learned.
        let _one = self.tools.listing.lock().await;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            if let Some(known) = self.tools.find(tool) {
                return known;
            }
            let next = match self.page(request, cursor.as_deref()).await {
                Ok(next) => next,
                Err(why) => {
                    let tool = quoted(tool.as_bytes());
                    self.log.report(format_args!("which headers tool {tool} wants is not known: {why}"));
                    break;
                }
            };
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        if let Some(known) = self.tools.find(tool) {
            return known;
        }
        // Perhaps it is one that is not listed. If it wants headers all the same, the server will say so.
        let none = HeaderParams::default();
        self.tools.remember(tool, none.clone());
        Arc::new(none)
    }

    /// Asks for a page of tools, and learns from it. Gives where the next one begins, as it was written.
    async fn page(&self, request: &Outgoing<'_>, cursor: Option<&str>) -> Result<Option<String>, CallError> {
        let mut params = String::from("{\"_meta\":{");
        let mut members = request.params.meta.json.into_iter().flat_map(Json::members);
        // Progress is that of the call, and not of this.
        let said: Vec<String> = members
            .by_ref()
            .filter(|member| member.name != key::PROGRESS_TOKEN)
            .map(|member| format!("{}:{}", member.name.raw(), member.value.as_str()))
            .collect();
        params.push_str(&said.join(","));
        params.push('}');
        if let Some(cursor) = cursor {
            params.push_str(",\"cursor\":");
            params.push_str(cursor);
        }
        params.push('}');
        // The engine's own ids are numbers.
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let id = Id::from(&*format!("tools-{}", ASKED.fetch_add(1, Ordering::Relaxed)));
        let mut message = Vec::new();
        crate::params::with(Some(&params), |params| write::request(&mut message, &id, "tools/list", params));
        let mut headers = posted();
        Outgoing::read(&message).expect("it is a request").repeat(&mut headers)?;
        let url = self.fetch.url();
        let mut response = self.fetch.send(Method::POST, url, &headers, Bytes::copy_from_slice(&message), None).await?;
        match reading(&mut response, false).await {
            ResponseKind::Json => {
                let body = response.bytes(self.limit).await?;
                match self.listed(body.into(), &id) {
                    Some(listed) => listed,
                    None => Err(HttpFailure::not_answered(&response, "what came back is no answer to it").into()),
                }
            }
            ResponseKind::Events => {
                let mut events = Events::new(response, self.limit);
                while let Some(event) = events.next().await? {
                    if let Ok(event) = event
                        && event.is_message()
                        && let Some(listed) = self.listed(event.data, &id)
                    {
                        return listed;
                    }
                }
                Err(HttpFailure::not_answered(&events.response, "the stream ended before the answer").into())
            }
            ResponseKind::Error { error, .. } => Err(CallError::Refused(error)),
            reading => Err(HttpFailure::in_answer(&response, reading).into()),
        }
    }

    /// Learns from an answer, if it is the one to this.
    fn listed(&self, message: Bytes, asked: &Id<'_>) -> Option<Result<Option<String>, CallError>> {
        let Parsed::Message(Message::Response(Answer { id, outcome })) =
            parse(&message, barewire_proto::rpc::DEFAULT_DEPTH)
        else {
            return None;
        };
        if id != *asked {
            return None;
        }
        let result = match outcome {
            Ok(result) => result,
            Err(error) => return Some(Err(CallError::Refused(error.to_owned()))),
        };
        let next = result.members().filter(|member| member.name == "nextCursor").last();
        let next = next.map(|next| next.value.as_str().to_owned()).filter(|next| next.starts_with('"'));
        self.tools.learn(message.clone(), &self.log);
        Some(Ok(next))
    }
}
