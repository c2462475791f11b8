//! Passes the server's requests to the closures that the user has set, and turns their results into JSON.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use barewire_proto::mcp::{
    ClientCapabilities, ClientCapability, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitForm,
    ElicitParams, ElicitResult, ElicitUrl, ListRootsResult, Object, Revision, Root,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::defaults;
use super::small::parse_small;
use crate::Failure;

/// Returns the elicitation result for a form that the user has accepted. `values` are the field values and must
/// serialize to an object.
///
/// The client fills in the form's defaults for missing fields before it sends the result.
///
/// ```
/// use barewire::client::accept;
///
/// let answer = accept(serde_json::json!({ "name": "Ada" }))?;
/// assert_eq!(answer.content.and_then(|values| values["name"].as_str().map(str::to_owned)).as_deref(), Some("Ada"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn accept(values: impl Serialize) -> Result<ElicitResult, serde_json::Error> {
    let content: Object = serde_json::from_value(serde_json::to_value(values)?)?;
    Ok(ElicitResult::accept(content))
}

/// A closure that handles one kind of request from the server.
type RequestHandler<P, T> = Arc<dyn Fn(P) -> AnswerFuture<T> + Send + Sync>;
pub(super) type AnswerFuture<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// The handlers for requests from the server. The client declares exactly the capabilities that these handlers
/// implement.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) form: Option<RequestHandler<ElicitForm, ElicitResult>>,
    pub(super) url: Option<RequestHandler<ElicitUrl, ElicitResult>>,
    pub(super) sample: Option<RequestHandler<CreateMessageParams, CreateMessageResult>>,
    pub(super) roots: Option<RequestHandler<(), Vec<Root>>>,
    /// Whether sampling requests can include tools.
    pub(super) sample_tools: bool,
    pub(super) extensions: Object,
    pub(super) experimental: Object,
}

/// The reason why a request cannot be passed to a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestRejection {
    /// There is no handler for the named capability, so the client did not declare it.
    NotDeclared(&'static str),
    /// The params are not valid. The text is the reason.
    Params(String),
}

/// Boxes a closure and its future.
pub(super) fn handler<P, T, F>(run: impl Fn(P) -> F + Send + Sync + 'static) -> RequestHandler<P, T>
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    Arc::new(move |params| Box::pin(run(params)))
}

impl Handlers {
    /// Returns the capabilities to declare, in the form that this revision defines.
    pub(super) fn capabilities(&self, revision: Revision) -> ClientCapabilities {
        use ClientCapability as C;
        let offered = [
            (C::Roots, self.roots.is_some()),
            (C::RootsListChanged, self.roots.is_some()),
            (C::Sampling, self.sample.is_some()),
            (C::SamplingTools, self.sample.is_some() && self.sample_tools),
            // In 2025-06-18 the elicitation capability means forms, and has no `form` member.
            (C::Elicitation, self.form.is_some()),
            (C::ElicitationForm, self.form.is_some()),
            (C::ElicitationUrl, self.url.is_some()),
        ];
        let mut declared = ClientCapabilities::default();
        for (capability, _) in offered.into_iter().filter(|(it, given)| *given && it.is_in(revision)) {
            declared.declare(capability);
        }
        declared.experimental = Some(self.experimental.clone()).filter(|object| !object.is_empty());
        if revision.has_extensions() {
            declared.extensions = Some(self.extensions.clone()).filter(|object| !object.is_empty());
        }
        declared
    }

    /// Starts the handler for a request. The future resolves to the result as JSON text.
    pub(super) fn start(
        &self,
        method: &str,
        params: Option<&str>,
        revision: Revision,
    ) -> Result<AnswerFuture<Box<RawValue>>, RequestRejection> {
        match method {
            "elicitation/create" if self.form.is_none() && self.url.is_none() => {
                Err(RequestRejection::NotDeclared("elicitation"))
            }
            "elicitation/create" => match parse_params(params)? {
                ElicitParams::Form(form) => {
                    let handler = self.form.as_ref().ok_or(RequestRejection::NotDeclared("elicitation.form"))?;
                    let schema = form.requested_schema.clone();
                    let pending = handler(form);
                    Ok(Box::pin(async move {
                        let mut result = pending.await?;
                        if result.action == ElicitAction::Accept {
                            defaults::fill(&schema, result.content.get_or_insert_default(), revision);
                        }
                        to_json(&result)
                    }))
                }
                ElicitParams::Url(url) => {
                    let handler = self.url.as_ref().filter(|_| revision.has_url_elicitation());
                    Ok(to_json_later(handler.ok_or(RequestRejection::NotDeclared("elicitation.url"))?(url)))
                }
                _ => Err(RequestRejection::Params("the mode is not supported".to_owned())),
            },
            "sampling/createMessage" => {
                let handler = self.sample.as_ref().ok_or(RequestRejection::NotDeclared("sampling"))?;
                let params: CreateMessageParams = parse_params(params)?;
                let wants_tools = params.tools.is_some() || params.tool_choice.is_some();
                if wants_tools && !self.sample_tools {
                    return Err(RequestRejection::NotDeclared("sampling.tools"));
                }
                Ok(to_json_later(handler(params)))
            }
            "roots/list" => {
                let roots = self.roots.as_ref().ok_or(RequestRejection::NotDeclared("roots"))?(());
                Ok(Box::pin(async move { to_json(&ListRootsResult::new(roots.await?)) }))
            }
            _ => Err(RequestRejection::NotDeclared("this method")),
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers").field("declares", &self.capabilities(Revision::LATEST)).finish_non_exhaustive()
    }
}

fn parse_params<T: DeserializeOwned>(params: Option<&str>) -> Result<T, RequestRejection> {
    parse_small(params.unwrap_or("{}")).map_err(RequestRejection::Params)
}

fn to_json_later<T: Serialize + 'static>(pending: AnswerFuture<T>) -> AnswerFuture<Box<RawValue>> {
    Box::pin(async move { to_json(&pending.await?) })
}

fn to_json(result: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(result).map_err(|error| Failure::unserializable(&error))
}

/// Serializes the settings of an extension or an experimental capability. Settings that are not an object become an
/// empty object, which declares the extension without settings.
pub(super) fn object_or_empty(settings: impl Serialize) -> Value {
    match serde_json::to_value(settings) {
        Ok(Value::Object(settings)) => Value::Object(settings),
        _ => Value::Object(Object::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(handlers: &Handlers, revision: Revision) -> Value {
        serde_json::to_value(handlers.capabilities(revision)).expect("an object")
    }

    #[test]
    fn declares_exactly_the_given_handlers_in_the_form_of_each_revision() {
        let mut handlers = Handlers::default();
        for revision in Revision::ALL {
            assert_eq!(declared(&handlers, revision), json!({}));
        }
        handlers.form = Some(handler(|_| async { Ok(ElicitResult::decline()) }));
        handlers.roots = Some(handler(|()| async { Ok(Vec::new()) }));
        let roots = json!({"roots": {"listChanged": true}});
        assert_eq!(declared(&handlers, Revision::V2024_11_05), roots);
        assert_eq!(declared(&handlers, Revision::V2025_03_26), roots);
        let with = |elicitation: Value| json!({"roots": {"listChanged": true}, "elicitation": elicitation});
        assert_eq!(declared(&handlers, Revision::V2025_06_18), with(json!({})));
        assert_eq!(declared(&handlers, Revision::V2025_11_25), with(json!({"form": {}})));
        let modern = json!({"roots": {}, "elicitation": {"form": {}}});
        assert_eq!(declared(&handlers, Revision::V2026_07_28), modern);
    }

    #[test]
    fn url_elicitation_alone_is_declared_where_the_revision_has_it() {
        let url = handler(|_| async { Ok(ElicitResult::decline()) });
        let handlers = Handlers { url: Some(url), sample_tools: true, ..Handlers::default() };
        assert_eq!(declared(&handlers, Revision::V2025_06_18), json!({}));
        assert_eq!(declared(&handlers, Revision::V2025_11_25), json!({"elicitation": {"url": {}}}));
    }

    #[tokio::test]
    async fn a_request_without_a_handler_names_the_missing_capability() {
        let handlers = Handlers::default();
        let ask = |method, params| match handlers.start(method, params, Revision::LATEST) {
            Ok(_) => panic!("there is no handler"),
            Err(why) => why,
        };
        assert_eq!(ask("roots/list", None), RequestRejection::NotDeclared("roots"));
        let form = r#"{"message":"?","requestedSchema":{}}"#;
        assert_eq!(ask("elicitation/create", Some(form)), RequestRejection::NotDeclared("elicitation"));
    }

    #[tokio::test]
    async fn an_accepted_form_gets_defaults_and_a_declined_one_does_not() {
        let schema = json!({"properties": {"name": {"default": "John"}, "age": {"default": 30}, "x": {}}});
        let params = json!({"message": "?", "requestedSchema": schema}).to_string();
        let answer = |result: ElicitResult| {
            let form = handler(move |_| std::future::ready(Ok(result.clone())));
            let handlers = Handlers { form: Some(form), ..Handlers::default() };
            handlers.start("elicitation/create", Some(&params), Revision::LATEST).expect("there is a handler")
        };
        let accepted = answer(accept(json!({"age": 7})).expect("an object")).await.expect("answered");
        assert_eq!(accepted.get(), r#"{"action":"accept","content":{"age":7,"name":"John"}}"#);
        let declined = answer(ElicitResult::decline()).await.expect("answered");
        assert_eq!(declined.get(), r#"{"action":"decline"}"#);
    }
}
