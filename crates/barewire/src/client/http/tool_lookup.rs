//! Looks up the header params of a tool (the arguments that headers repeat) with `tools/list`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barewire_proto::http::{HeaderParams, ResponseKind};
use barewire_proto::json::Json;
use barewire_proto::mcp::key;
use barewire_proto::rpc::{Id, Message, Parsed, Response as RpcResponse, parse, write};
use bytes::Bytes;
use http::Method;

use super::connection::HttpConnection;
use super::events::EventStream;
use super::failure::HttpFailure;
use super::mirrored::{MirroredFields, post_headers};
use super::post::classify;
use crate::client::pages::MAX_PAGES;
use crate::log::quoted;
use crate::peer::CallError;

impl HttpConnection {
    /// Returns the header params of the tool that `request` calls. Looks them up first if they are unknown.
    pub(super) async fn tool_header_params(&self, tool: &str, request: &MirroredFields<'_>) -> Arc<HeaderParams> {
        if let Some(known) = self.tool_headers.find(tool) {
            return known;
        }
        // Only one lookup runs at a time. Calls that waited for a lookup find the header params that it has stored.
        let _guard = self.tool_headers.list_lock.lock().await;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            if let Some(known) = self.tool_headers.find(tool) {
                return known;
            }
            let next = match self.list_page(request, cursor.as_deref()).await {
                Ok(next) => next,
                Err(why) => {
                    let tool = quoted(tool.as_bytes());
                    self.log.report(format_args!("could not look up the headers of tool {tool}: {why}"));
                    break;
                }
            };
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        if let Some(known) = self.tool_headers.find(tool) {
            return known;
        }
        // The server does not list the tool. If the tool needs headers, the server's error says so.
        let none = HeaderParams::default();
        self.tool_headers.remember(tool, none.clone());
        Arc::new(none)
    }

    /// Requests one page of tools and stores their header params. Returns the cursor of the next page as JSON text.
    async fn list_page(&self, request: &MirroredFields<'_>, cursor: Option<&str>) -> Result<Option<String>, CallError> {
        let mut params = String::from("{\"_meta\":{");
        let mut members = request.params.meta.json.into_iter().flat_map(Json::members);
        // The progress token belongs to the call, not to this request.
        let meta: Vec<String> = members
            .by_ref()
            .filter(|member| member.name != key::PROGRESS_TOKEN)
            .map(|member| format!("{}:{}", member.name.raw(), member.value.as_str()))
            .collect();
        params.push_str(&meta.join(","));
        params.push('}');
        if let Some(cursor) = cursor {
            params.push_str(",\"cursor\":");
            params.push_str(cursor);
        }
        params.push('}');
        // The id is a string, so that it cannot be equal to an id of the engine, which is always a number.
        static NEXT_LIST_ID: AtomicU64 = AtomicU64::new(0);
        let id = Id::from(&*format!("tools-{}", NEXT_LIST_ID.fetch_add(1, Ordering::Relaxed)));
        let mut message = Vec::new();
        crate::params::with(Some(&params), |params| write::request(&mut message, &id, "tools/list", params));
        let mut headers = post_headers();
        MirroredFields::read(&message).expect("the message is a request").add_headers(&mut headers)?;
        let url = self.fetch.url();
        let mut response = self.fetch.send(Method::POST, url, &headers, Bytes::copy_from_slice(&message), None).await?;
        match classify(&mut response, false).await {
            ResponseKind::Json => {
                let body = response.bytes(self.limit).await?;
                match self.learn_page(body.into(), &id) {
                    Some(next) => next,
                    None => {
                        Err(HttpFailure::not_answered(&response, "the body is not a response to this request").into())
                    }
                }
            }
            ResponseKind::Events => {
                let mut events = EventStream::new(response, self.limit);
                while let Some(event) = events.next().await? {
                    if let Ok(event) = event
                        && event.is_message()
                        && let Some(next) = self.learn_page(event.data, &id)
                    {
                        return next;
                    }
                }
                Err(HttpFailure::not_answered(&events.response, "the stream ended before the response").into())
            }
            ResponseKind::Error { error, .. } => Err(CallError::Refused(error)),
            reading => Err(HttpFailure::from_response(&response, reading).into()),
        }
    }

    /// If `message` is the response to this request, stores the header params in it and returns the cursor of the next
    /// page. Returns `None` for any other message.
    fn learn_page(&self, message: Bytes, request_id: &Id<'_>) -> Option<Result<Option<String>, CallError>> {
        let Parsed::Message(Message::Response(RpcResponse { id, outcome })) =
            parse(&message, barewire_proto::rpc::DEFAULT_DEPTH)
        else {
            return None;
        };
        if id != *request_id {
            return None;
        }
        let result = match outcome {
            Ok(result) => result,
            Err(error) => return Some(Err(CallError::Refused(error.to_owned()))),
        };
        let next = result.members().filter(|member| member.name == "nextCursor").last();
        let next = next.map(|next| next.value.as_str().to_owned()).filter(|next| next.starts_with('"'));
        self.tool_headers.learn(message.clone(), &self.log);
        Some(Ok(next))
    }
}
