//! The modern era: metadata in every request and every result.

use serde_json::{Value, json};

use crate::Server;
use crate::surface::{self, ServerRequest};
use crate::wire::{Outcome, Reply, error, modern_key};

impl Server {
    pub(crate) fn modern(&mut self, id: &Value, method: &str, params: &Value) -> Reply {
        if let Err(refused) = self.metadata(&params["_meta"]) {
            return Reply::Now(Err(refused));
        }
        self.was_discovered |= method == "server/discover";
        self.has_listed_prompts |= method == "prompts/list";
        match method {
            _ if self.has("needs-discover") && !self.was_discovered => Reply::Now(error(-32603, "not discovered")),
            "server/discover" if self.has("no-discover") => Reply::Now(error(-32601, "Method not found")),
            "server/discover" => {
                let mut result = json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": self.capabilities(true),
                });
                if let Some(instructions) = self.instructions() {
                    result["instructions"] = instructions;
                }
                if self.has("no-supported-versions") {
                    result.as_object_mut().expect("an object").remove("supportedVersions");
                }
                Reply::Now(self.complete(method, Ok(result)))
            }
            "subscriptions/listen" => self.listen(id, params),
            "ping" if self.has("serves-what-is-gone") => Reply::Now(self.complete(method, Ok(json!({})))),
            "ping" | "initialize" | "logging/setLevel" | "resources/subscribe" => {
                Reply::Now(error(-32601, "Method not found"))
            }
            _ => match self.serve(&ServerRequest { id, method, params, is_modern: true }) {
                Reply::Now(outcome) => Reply::Now(self.complete(method, outcome)),
                Reply::Later => Reply::Later,
            },
        }
    }

    fn metadata(&self, meta: &Value) -> Result<(), (i64, String, Option<Value>)> {
        let (version, capabilities) =
            (meta.get(modern_key("protocolVersion")), meta.get(modern_key("clientCapabilities")));
        if self.has("takes-any-metadata") && version.is_none() {
            return Ok(());
        }
        let Some(version) = version.and_then(Value::as_str) else {
            return error(-32602, "_meta lacks protocolVersion");
        };
        if version != "2026-07-28" {
            if self.has("wrong-code-for-version") {
                return error(-32602, "Unsupported protocol version");
            }
            let supported = if self.has("supports-another-version") { "2027-07-28" } else { "2026-07-28" };
            let data = json!({"supported": [supported], "requested": version});
            let data = (!self.has("version-without-data")).then_some(data);
            return Err((-32022, "Unsupported protocol version".to_owned(), data));
        }
        if capabilities.is_none() {
            return error(-32602, "_meta lacks clientCapabilities");
        }
        if self.has("needs-client-info") && meta.get(modern_key("clientInfo")).is_none() {
            return error(-32602, "_meta lacks clientInfo");
        }
        let is_known = |name: &String| name == "progressToken" || name.starts_with(&modern_key(""));
        if self.has("refuses-other-metadata") && !meta.as_object().is_some_and(|meta| meta.keys().all(is_known)) {
            return error(-32602, "_meta has an unknown member");
        }
        Ok(())
    }

    /// Adds the members that every modern result has, except those that the fault leaves out.
    pub(crate) fn complete(&self, method: &str, outcome: Outcome) -> Outcome {
        let mut result = outcome?;
        if !self.has("no-result-type") && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        let is_cacheable = method.ends_with("/list") || matches!(method, "server/discover" | "resources/read");
        if is_cacheable && !self.has("no-hints") {
            result["ttlMs"] = json!(if self.has("fresh-but-changed") { 60_000 } else { 0 });
            result["cacheScope"] = json!("private");
        }
        if !self.has("no-server-info") {
            result["_meta"] = json!({modern_key("serverInfo"): surface::info()});
        }
        Ok(result)
    }

    fn listen(&self, id: &Value, params: &Value) -> Reply {
        let meta = json!({modern_key("subscriptionId"): id});
        if self.has("untagged-acknowledgement") {
            let params = json!({"notifications": params["notifications"]});
            self.wire.notify("notifications/subscriptions/acknowledged", &params);
        } else if !self.has("no-acknowledgement") {
            let mut params = json!({"_meta": meta, "notifications": params["notifications"]});
            if self.has("acknowledges-more") {
                params["notifications"]["promptsListChanged"] = json!(true);
            }
            self.wire.notify("notifications/subscriptions/acknowledged", &params);
        }
        if self.has("ends-listening-untagged") {
            return Reply::Now(Ok(json!({"resultType": "complete"})));
        }
        if self.has("untagged-change") {
            self.wire.notify("notifications/tools/list_changed", &json!({}));
        }
        Reply::Later
    }
}
