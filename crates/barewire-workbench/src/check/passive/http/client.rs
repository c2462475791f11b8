//! Checks of the headers that a client must send with a message.

use barewire_proto::http::Media;
use barewire_proto::http::mirror::decode;
use barewire_proto::json::Text;
use barewire_proto::mcp::{RequestParams, Revision};
use barewire_proto::rpc::{Message, Params};

use super::{FinishedExchange, PostedKind, PostedMessage};
use crate::check::catalogue::http::{
    HTTP_ACCEPT, HTTP_CONTENT_TYPE, HTTP_HEADER_MIRRORING, HTTP_PROTOCOL_VERSION, HTTP_SESSION, OTHER_VERSION_SENT,
};
use crate::check::ledger::Ledger;
use crate::check::passive::MessageContext;
use crate::check::passive::tools::ToolChecks;
use crate::operations::{HttpExchange, member};
use crate::text::shown;

impl FinishedExchange<'_> {
    /// Checks the headers of a posted message. `gives_sessions` is true if the server has started a session.
    pub(super) fn client(&mut self, posted: &PostedMessage, gives_sessions: bool) {
        let exchange = self.exchange;
        if !self.state.client_is_ours {
            self.ledger.count(&HTTP_ACCEPT);
        }
        for wanted in ["application/json", "text/event-stream"] {
            if !self.accepts(wanted) {
                self.by_client(&HTTP_ACCEPT, format!("the Accept header of a POST does not cover {wanted}"));
            }
        }
        match exchange.request_header("content-type") {
            Some(value) if Media::parse(value.as_bytes()) == Some(Media::Json) => {}
            Some(value) => {
                let value = shown(value.as_bytes(), 60);
                self.by_client(&HTTP_CONTENT_TYPE, format!("a message is sent with Content-Type {value}"));
            }
            None => self.by_client(&HTTP_CONTENT_TYPE, "a message is sent without a Content-Type"),
        }
        if posted.is_handshake() || posted.kind == PostedKind::Other {
            return;
        }
        if posted.version.is_some() {
            return self.mirrored(posted);
        }
        let is_modern = exchange.request_header("mcp-method").is_some();
        if gives_sessions && !is_modern && exchange.request_header("mcp-session-id").is_none() {
            self.by_client(&HTTP_SESSION, format!("{} is sent without Mcp-Session-Id", posted.shown()));
        }
        let Some(agreed) = posted.agreed.filter(|it| *it >= Revision::V2025_06_18) else { return };
        self.ledger.count(&HTTP_PROTOCOL_VERSION);
        match exchange.request_header("mcp-protocol-version") {
            Some(version) if version == agreed.as_str() => {}
            Some(version) => {
                let version = shown(version.as_bytes(), 40);
                let detail = format!(
                    "{} is sent with MCP-Protocol-Version {version}; the agreed version is {agreed}",
                    posted.shown()
                );
                self.by_client_under(&HTTP_PROTOCOL_VERSION, &OTHER_VERSION_SENT, detail);
            }
            None => {
                let detail = format!("{} is sent without MCP-Protocol-Version", posted.shown());
                self.by_client(&HTTP_PROTOCOL_VERSION, detail);
            }
        }
    }

    /// Checks that the headers of a modern request match its body.
    fn mirrored(&mut self, posted: &PostedMessage) {
        if posted.kind != PostedKind::Request {
            return;
        }
        if !self.state.client_is_ours {
            self.ledger.count(&HTTP_HEADER_MIRRORING);
        }
        let pairs = [
            ("MCP-Protocol-Version", posted.version.as_deref()),
            ("Mcp-Method", Some(posted.method.as_str())),
            ("Mcp-Name", posted.name.as_deref()),
        ];
        for (name, wanted) in pairs {
            let Some(wanted) = wanted else { continue };
            let value = self.exchange.request_header(&name.to_ascii_lowercase());
            if value.is_some_and(is_redacted) {
                continue;
            }
            let plain = value.map(|value| decode(value.as_bytes()));
            let detail = match plain {
                None => format!("{} is sent without {name}", posted.shown()),
                Some(Ok(value)) if value == wanted => continue,
                Some(_) => format!("{name} of {} does not match the body", posted.shown()),
            };
            self.by_client(&HTTP_HEADER_MIRRORING, detail);
        }
    }
}

/// Checks that a call repeats in headers, for proxies, the arguments that its tool marks with `x-mcp-header`.
pub(super) fn check_param_headers(
    context: &MessageContext<'_>,
    exchange: &HttpExchange,
    tools: &ToolChecks,
    ledger: &mut Ledger,
) {
    let Ok(Message::Request(request)) = context.tracked.message else { return };
    let params = RequestParams::read(request.params);
    let name = params.name.and_then(Text::from_json).map(Text::to_name);
    let (Some(name), true) = (name, request.method == "tools/call" && params.meta.protocol_version.is_some()) else {
        return;
    };
    let Some(wanted) = tools.headers(context, &name).filter(|wanted| !wanted.is_empty()) else { return };
    // A redacted value cannot be compared.
    let is_replaced =
        exchange.request_headers.iter().any(|(name, value)| name.starts_with("mcp-param-") && is_redacted(value));
    if is_replaced || context.tracked.frame.place.is_some_and(|place| place.redacted) {
        return;
    }
    if !context.state.client_is_ours {
        ledger.inspected(&HTTP_HEADER_MIRRORING);
    }
    let arguments = member(request.params.map(Params::json), "arguments");
    if let Err(rejection) = wanted.check(arguments, &exchange.request_headers[..]) {
        let detail =
            format!("a call of {}: {}", shown(name.as_bytes(), 60), shown(rejection.error.message.as_bytes(), 120));
        context.fail_in(ledger, &HTTP_HEADER_MIRRORING, "/params/arguments", detail);
    }
}

fn is_redacted(value: &str) -> bool {
    value.contains(crate::secrets::REPLACEMENT_PREFIX)
}
