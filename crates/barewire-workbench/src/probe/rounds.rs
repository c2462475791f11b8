//! The rounds of a modern call of the tool `ask`: first the input that the client can give, then only a state, then the
//! result.

use barewire_proto::json::Json;
use barewire_proto::mcp::{ClientCapability, RequestParams};
use serde_json::{Map, Value, json};

use super::answers::{Answer, Failure};
use super::tools::{form_params, sampling_params, text};
use crate::check::host::ROUND_STATES;

pub(super) fn next(params: &RequestParams<'_>, has: impl Fn(ClientCapability) -> bool) -> Result<Answer, Failure> {
    let state = params.request_state.and_then(Json::string);
    let [first, second] = ROUND_STATES;
    match state.as_deref() {
        None => {
            let mut requests = Map::new();
            let mut add = |name: &str, method: &str, params: Option<Value>| {
                let mut request = json!({"method": method});
                if let Some(params) = params {
                    request["params"] = params;
                }
                requests.insert(name.to_owned(), request);
            };
            if has(ClientCapability::Roots) {
                add("the roots", "roots/list", None);
            }
            if has(ClientCapability::Sampling) {
                add("sample/1", "sampling/createMessage", Some(sampling_params()));
            }
            if has(ClientCapability::ElicitationForm) {
                let mut params = form_params("Please fill in this form of the probe.");
                params["mode"] = json!("form");
                add("Formular \u{2028} 1", "elicitation/create", Some(params));
            }
            let mut result = json!({"resultType": "input_required", "requestState": first});
            if !requests.is_empty() {
                result["inputRequests"] = Value::Object(requests);
            }
            Ok(Answer::Result(result))
        }
        Some(state) if state == first => {
            Ok(Answer::Result(json!({"resultType": "input_required", "requestState": second})))
        }
        Some(state) if state == second => Ok(Answer::Result(text("All rounds are done."))),
        Some(_) => Err(Failure::invalid_params("requestState is not one that was given")),
    }
}
