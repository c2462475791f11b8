//! What a server asks of its client -> the caller's closures, and what they give -> an answer, in either era.

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
use crate::Failure;

/// The user has accepted a form, and these are the values: anything that is written as an object.
///
/// Fields that are left out are filled in with the defaults of the form.
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

/// A closure that was given for a question, and what it gives.
type Handler<P, T> = Arc<dyn Fn(P) -> Outcome<T> + Send + Sync>;
pub(super) type Outcome<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// What the caller has given to answer with. Only that is declared.
#[derive(Clone, Default)]
pub(super) struct Answers {
    pub(super) form: Option<Handler<ElicitForm, ElicitResult>>,
    pub(super) page: Option<Handler<ElicitUrl, ElicitResult>>,
    pub(super) sample: Option<Handler<CreateMessageParams, CreateMessageResult>>,
    pub(super) roots: Option<Handler<(), Vec<Root>>>,
    /// The model may be given tools.
    pub(super) sample_tools: bool,
    pub(super) extensions: Object,
    pub(super) experimental: Object,
}

/// Why a question cannot even be put to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unasked {
    /// Nothing was given to answer it with, so it was not declared.
    NotOffered(&'static str),
    /// Its parameters are not what they should be.
    Params(String),
}

/// Makes a closure one that can be kept.
pub(super) fn handler<P, T, F>(run: impl Fn(P) -> F + Send + Sync + 'static) -> Handler<P, T>
where
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    Arc::new(move |params| Box::pin(run(params)))
}

impl Answers {
    /// What is declared to a server, as this revision has it.
    pub(super) fn capabilities(&self, revision: Revision) -> ClientCapabilities {
        use ClientCapability as C;
        let offers = [
            (C::Roots, self.roots.is_some()),
            (C::RootsListChanged, self.roots.is_some()),
            (C::Sampling, self.sample.is_some()),
            (C::SamplingTools, self.sample.is_some() && self.sample_tools),
            // 2025-06-18 has forms and no word for them.
            (C::Elicitation, self.form.is_some()),
            (C::ElicitationForm, self.form.is_some()),
            (C::ElicitationUrl, self.page.is_some()),
        ];
        let mut declared = ClientCapabilities::default();
        for (capability, _) in offers.into_iter().filter(|(it, offered)| *offered && it.is_in(revision)) {
            declared.declare(capability);
        }
        declared.experimental = Some(self.experimental.clone()).filter(|them| !them.is_empty());
        if revision.has_extensions() {
            declared.extensions = Some(self.extensions.clone()).filter(|them| !them.is_empty());
        }
        declared
    }

    /// Puts a question to the caller: `params` are as they came. What comes of it is the answer, as text.
    pub(super) fn ask(
        &self,
        method: &str,
        params: Option<&str>,
        revision: Revision,
    ) -> Result<Outcome<Box<RawValue>>, Unasked> {
        match method {
            "elicitation/create" if self.form.is_none() && self.page.is_none() => {
                Err(Unasked::NotOffered("elicitation"))
            }
            "elicitation/create" => match read(params)? {
                ElicitParams::Form(form) => {
                    let handler = self.form.as_ref().ok_or(Unasked::NotOffered("elicitation.form"))?;
                    let schema = form.requested_schema.clone();
                    let asked = handler(form);
                    Ok(Box::pin(async move {
                        let mut result = asked.await?;
                        if result.action == ElicitAction::Accept {
                            defaults::fill(&schema, result.content.get_or_insert_default(), revision);
                        }
                        written(&result)
                    }))
                }
                ElicitParams::Url(page) => {
                    let handler = self.page.as_ref().filter(|_| revision.has_url_elicitation());
                    Ok(answered(handler.ok_or(Unasked::NotOffered("elicitation.url"))?(page)))
                }
                _ => Err(Unasked::Params("a mode that is not known here".to_owned())),
            },
            "sampling/createMessage" => {
                let handler = self.sample.as_ref().ok_or(Unasked::NotOffered("sampling"))?;
                let params: CreateMessageParams = read(params)?;
                let wants_tools = params.tools.is_some() || params.tool_choice.is_some();
                if wants_tools && !self.sample_tools {
                    return Err(Unasked::NotOffered("sampling.tools"));
                }
                Ok(answered(handler(params)))
            }
            "roots/list" => {
                let roots = self.roots.as_ref().ok_or(Unasked::NotOffered("roots"))?(());
                Ok(Box::pin(async move { written(&ListRootsResult::new(roots.await?)) }))
            }
            _ => Err(Unasked::NotOffered("anything like it")),
        }
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").field("declares", &self.capabilities(Revision::LATEST)).finish_non_exhaustive()
    }
}

fn read<T: DeserializeOwned>(params: Option<&str>) -> Result<T, Unasked> {
    serde_json::from_str(params.unwrap_or("{}")).map_err(|error| Unasked::Params(error.to_string()))
}

fn answered<T: Serialize + 'static>(asked: Outcome<T>) -> Outcome<Box<RawValue>> {
    Box::pin(async move { written(&asked.await?) })
}

fn written(result: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(result).map_err(|error| Failure::unserializable(&error))
}

/// An object for a setting of an extension.
pub(super) fn object(settings: impl Serialize) -> Value {
    match serde_json::to_value(settings) {
        Ok(Value::Object(settings)) => Value::Object(settings),
        // Whoever has nothing to say says that with an empty object.
        _ => Value::Object(Object::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(answers: &Answers, revision: Revision) -> Value {
        serde_json::to_value(answers.capabilities(revision)).expect("an object")
    }

    #[test]
    fn only_what_was_given_is_declared_and_as_each_revision_has_it() {
        let mut answers = Answers::default();
        for revision in Revision::ALL {
            assert_eq!(declared(&answers, revision), json!({}));
        }
        answers.form = Some(handler(|_| async { Ok(ElicitResult::decline()) }));
        answers.roots = Some(handler(|()| async { Ok(Vec::new()) }));
        let roots = json!({"roots": {"listChanged": true}});
        assert_eq!(declared(&answers, Revision::V2024_11_05), roots);
        assert_eq!(declared(&answers, Revision::V2025_03_26), roots);
        let with = |elicitation: Value| json!({"roots": {"listChanged": true}, "elicitation": elicitation});
        assert_eq!(declared(&answers, Revision::V2025_06_18), with(json!({})));
        assert_eq!(declared(&answers, Revision::V2025_11_25), with(json!({"form": {}})));
        let modern = json!({"roots": {}, "elicitation": {"form": {}}});
        assert_eq!(declared(&answers, Revision::V2026_07_28), modern);
    }

    #[test]
    fn pages_alone_are_declared_where_there_are_any() {
        let page = handler(|_| async { Ok(ElicitResult::decline()) });
        let answers = Answers { page: Some(page), sample_tools: true, ..Answers::default() };
        assert_eq!(declared(&answers, Revision::V2025_06_18), json!({}));
        assert_eq!(declared(&answers, Revision::V2025_11_25), json!({"elicitation": {"url": {}}}));
    }

    #[tokio::test]
    async fn a_question_without_an_answer_says_what_is_missing() {
        let answers = Answers::default();
        let ask = |method, params| match answers.ask(method, params, Revision::LATEST) {
            Ok(_) => panic!("there is nobody to ask"),
            Err(why) => why,
        };
        assert_eq!(ask("roots/list", None), Unasked::NotOffered("roots"));
        let form = r#"{"message":"?","requestedSchema":{}}"#;
        assert_eq!(ask("elicitation/create", Some(form)), Unasked::NotOffered("elicitation"));
    }

    #[tokio::test]
    async fn an_accepted_form_has_its_defaults_and_a_declined_one_nothing() {
        let schema = json!({"properties": {"name": {"default": "John"}, "age": {"default": 30}, "x": {}}});
        let params = json!({"message": "?", "requestedSchema": schema}).to_string();
        let answer = |result: ElicitResult| {
            let form = handler(move |_| std::future::ready(Ok(result.clone())));
            let answers = Answers { form: Some(form), ..Answers::default() };
            answers.ask("elicitation/create", Some(&params), Revision::LATEST).expect("offered")
        };
        let accepted = answer(accept(json!({"age": 7})).expect("an object")).await.expect("answered");
        assert_eq!(accepted.get(), r#"{"action":"accept","content":{"age":7,"name":"John"}}"#);
        let declined = answer(ElicitResult::decline()).await.expect("answered");
        assert_eq!(declined.get(), r#"{"action":"decline"}"#);
    }
}
