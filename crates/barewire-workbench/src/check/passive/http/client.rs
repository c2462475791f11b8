//! What a client has to send with a message.

use barewire_proto::http::Media;
use barewire_proto::http::mirror::decode;
use barewire_proto::json::Text;
use barewire_proto::mcp::{RequestParams, Revision};
use barewire_proto::rpc::{Message, Params};

use super::{Asked, Kind, View};
use crate::check::catalogue::http::{
    HTTP_ACCEPT, HTTP_CONTENT_TYPE, HTTP_HEADER_MIRRORING, HTTP_PROTOCOL_VERSION, HTTP_SESSION,
};
use crate::check::ledger::Ledger;
use crate::check::passive::Case;
use crate::check::passive::tools::Tools;
use crate::operations::{HttpExchange, member};
use crate::text::shown;

impl View<'_> {
    /// What a client has to send with a message.
    pub(super) fn client(&mut self, asked: &Asked, gives_sessions: bool) {
        let exchange = self.exchange;
        if !self.setting.client_is_ours {
            self.ledger.look(&HTTP_ACCEPT);
        }
        for wanted in ["application/json", "text/event-stream"] {
            if !self.accepts(wanted) {
                self.by_client(&HTTP_ACCEPT, format!("a POST does not accept {wanted}"));
            }
        }
        match exchange.request_header("content-type") {
            Some(value) if Media::parse(value.as_bytes()) == Some(Media::Json) => {}
            Some(value) => {
                let value = shown(value.as_bytes(), 60);
                self.by_client(&HTTP_CONTENT_TYPE, format!("a message is sent as {value}"));
            }
            None => self.by_client(&HTTP_CONTENT_TYPE, "a message is sent without a Content-Type"),
        }
        if asked.is_handshake() || asked.kind == Kind::Other {
            return;
        }
        if asked.version.is_some() {
            return self.mirrored(asked);
        }
        let is_modern = exchange.request_header("mcp-method").is_some();
        if gives_sessions && !is_modern && exchange.request_header("mcp-session-id").is_none() {
            self.by_client(&HTTP_SESSION, format!("{} is sent without Mcp-Session-Id", asked.shown()));
        }
        let Some(agreed) = asked.agreed.filter(|it| *it >= Revision::V2025_06_18) else { return };
        self.ledger.look(&HTTP_PROTOCOL_VERSION);
        match exchange.request_header("mcp-protocol-version") {
            Some(version) if version == agreed.as_str() => {}
            Some(version) => {
                let version = shown(version.as_bytes(), 40);
                let detail = format!("{} says {version}, and {agreed} was agreed", asked.shown());
                self.by_client(&HTTP_PROTOCOL_VERSION, detail);
            }
            None => {
                let detail = format!("{} is sent without MCP-Protocol-Version", asked.shown());
                self.by_client(&HTTP_PROTOCOL_VERSION, detail);
            }
        }
    }

    /// What a modern request says twice.
    fn mirrored(&mut self, asked: &Asked) {
        if asked.kind != Kind::Request {
            return;
        }
        if !self.setting.client_is_ours {
            self.ledger.look(&HTTP_HEADER_MIRRORING);
        }
        let pairs = [
            ("MCP-Protocol-Version", asked.version.as_deref()),
            ("Mcp-Method", Some(asked.method.as_str())),
            ("Mcp-Name", asked.name.as_deref()),
        ];
        for (name, wanted) in pairs {
            let Some(wanted) = wanted else { continue };
            let value = self.exchange.request_header(&name.to_ascii_lowercase());
            if value.is_some_and(is_redacted) {
                continue;
            }
            let plain = value.map(|value| decode(value.as_bytes()));
            let detail = match plain {
                None => format!("{} is sent without {name}", asked.shown()),
                Some(Ok(value)) if value == wanted => continue,
                Some(_) => format!("{name} of {} is not what the body says", asked.shown()),
            };
            self.by_client(&HTTP_HEADER_MIRRORING, detail);
        }
    }
}

/// Arguments of tools that ask for it are repeated in headers, so that whoever is between can go by them.
pub(super) fn repeats_arguments(case: &Case<'_>, exchange: &HttpExchange, tools: &Tools, ledger: &mut Ledger) {
    let Ok(Message::Request(request)) = case.watched.message else { return };
    let params = RequestParams::read(request.params);
    let name = params.name.and_then(Text::from_json).map(Text::to_name);
    let (Some(name), true) = (name, request.method == "tools/call" && params.meta.protocol_version.is_some())
    else {
        return;
    };
    let Some(wanted) = tools.headers(case, &name).filter(|wanted| !wanted.is_empty()) else { return };
    // What was replaced to keep a secret can be compared with nothing.
    let is_replaced = exchange
        .request_headers
        .iter()
        .any(|(name, value)| name.starts_with("mcp-param-") && is_redacted(value));
    if is_replaced || case.watched.frame.place.is_some_and(|place| place.redacted) {
        return;
    }
    if !case.setting.client_is_ours {
        ledger.look(&HTTP_HEADER_MIRRORING);
    }
    let arguments = member(request.params.map(Params::json), "arguments");
    if let Err(rejection) = wanted.check(arguments, &exchange.request_headers[..]) {
        let detail = format!(
            "a call of {}: {}",
            shown(name.as_bytes(), 60),
            shown(rejection.error.message.as_bytes(), 120)
        );
        case.fail_in(ledger, &HTTP_HEADER_MIRRORING, "/params/arguments", detail);
    }
}

fn is_redacted(value: &str) -> bool {
    value.contains(crate::secrets::REPLACEMENT_PREFIX)
}
