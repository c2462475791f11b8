//! Conventions for cancelling requests and reporting progress, which JSON-RPC does not define itself.

use super::CallId;
use crate::json::{Json, Kind};
use crate::rpc::{Code, Id, Notification, Params, write};

/// The conventions that two peers use to cancel requests and to report progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conventions {
    /// The convention for cancelling a request.
    pub cancel: CancelConvention,
    /// The convention for reporting progress.
    pub progress: ProgressConvention,
}

/// The convention for cancelling a request: a notification, and the response to the cancelled request, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelConvention {
    /// The method of the notification.
    pub method: &'static str,
    /// The member of the notification's params that holds the id of the cancelled request.
    pub id: &'static str,
    /// The error code of the response to a cancelled request; `None` if cancelled requests are not answered.
    pub answer: Option<Code>,
}

/// The convention for reporting progress: a token in the request, and a notification with that token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressConvention {
    /// The path of the token in the params of a request: one name, or two names if the token is in an object inside the
    /// params.
    pub token_path: &'static [&'static str],
    /// The method of the notification.
    pub method: &'static str,
    /// The member of the notification's params that holds the token.
    pub token: &'static str,
    /// The member of the notification's params that holds the reported value; `None` if the members of the value are
    /// directly beside the token.
    pub value: Option<&'static str>,
}

impl Conventions {
    /// Creates conventions for cancellation and progress.
    pub const fn new(cancel: CancelConvention, progress: ProgressConvention) -> Self {
        Self { cancel, progress }
    }

    /// The conventions of the Language Server Protocol, also used for plain JSON-RPC: `$/cancelRequest`, answered with
    /// -32800.
    pub const JSON_RPC: Self = Self::new(
        CancelConvention::new("$/cancelRequest", "id").answer(Code::REQUEST_CANCELLED),
        ProgressConvention::new(&["workDoneToken"], "$/progress", "token").with_value("value"),
    );

    /// The conventions of MCP: `notifications/cancelled`, after which the request is not answered.
    pub const MCP: Self = Self::new(
        CancelConvention::new("notifications/cancelled", "requestId"),
        ProgressConvention::new(&["_meta", "progressToken"], "notifications/progress", "progressToken"),
    );
}

/// Returns the meaning of a notification under `conventions`.
#[inline]
pub fn signal<'a>(conventions: &Conventions, notification: &Notification<'a>) -> Signal<'a> {
    let Conventions { cancel, progress, .. } = conventions;
    let member = |name| notification.params.and_then(|params| params.json().member(name));
    if notification.method == cancel.method {
        // A cancel notification without an id cancels nothing, and it is not passed to a handler either.
        return member(cancel.id).and_then(Id::from_json).map_or(Signal::Stray, Signal::Cancel);
    }
    if notification.method == progress.method
        && let Some(call) = member(progress.token).and_then(Id::from_json)
        && let Some(call) = CallId::from_id(&call)
    {
        return Signal::Progress(call);
    }
    Signal::None
}

/// The meaning of a notification for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a driver must handle every variant")]
pub enum Signal<'a> {
    /// The notification neither cancels a request nor reports progress.
    None,
    /// The peer cancels its request with this id.
    Cancel(Id<'a>),
    /// The peer reports progress on our call with this id, which need not exist.
    Progress(CallId),
    /// A cancel notification without a valid id.
    Stray,
}

impl CancelConvention {
    /// Creates a convention with the notification `method`. `id` is the name of the member of its params that holds the
    /// request id. Cancelled requests are not answered.
    pub const fn new(method: &'static str, id: &'static str) -> Self {
        Self { method, id, answer: None }
    }

    /// Sets [`answer`](#structfield.answer).
    #[must_use]
    pub const fn answer(mut self, answer: Code) -> Self {
        self.answer = Some(answer);
        self
    }
}

/// Appends the notification that cancels `call`.
pub fn write_cancel(convention: &CancelConvention, out: &mut Vec<u8>, call: CallId) {
    let params = format!(r#"{{"{}":{}}}"#, convention.id, call.id());
    let params = Json::parse(params.as_bytes()).ok().and_then(Params::from_json);
    write::notification(out, convention.method, params);
}

impl ProgressConvention {
    /// Creates a convention with the notification `method`. `token` is the name of the member of its params that holds
    /// the token, beside the members of the value.
    pub const fn new(token_path: &'static [&'static str], method: &'static str, token: &'static str) -> Self {
        Self { token_path, method, token, value: None }
    }

    /// Sets [`value`](#structfield.value).
    #[must_use]
    pub const fn with_value(mut self, value: &'static str) -> Self {
        self.value = Some(value);
        self
    }
}

/// Returns the params of the notification that reports `value` with `token`. Returns `None` if the convention puts the
/// members of `value` beside the token, but `value` is not an object.
pub fn progress_params(convention: &ProgressConvention, token: &Id<'_>, value: Json<'_>) -> Option<String> {
    let token = format!(r#"{{"{}":{token}"#, convention.token);
    match (convention.value, value.kind()) {
        (Some(name), _) => Some(format!(r#"{token},"{name}":{value}}}"#)),
        (None, Kind::Object) if value.members().next().is_none() => Some(format!("{token}}}")),
        (None, Kind::Object) => Some(format!("{token},{}", &value.as_str()[1..])),
        (None, _) => None,
    }
}

/// Returns the reported value in the params of a progress notification.
pub fn progress_value<'a>(convention: &ProgressConvention, params: Json<'a>) -> Json<'a> {
    convention.value.and_then(|name| params.member(name)).unwrap_or(params)
}

/// Returns `params` with `token` at the path of the convention, or `None` if `params` is an array.
pub fn with_progress_token(
    convention: &ProgressConvention,
    params: Option<Json<'_>>,
    token: &Id<'_>,
) -> Option<String> {
    match params {
        None => Some(nested(convention.token_path, token)),
        Some(params) if params.kind() == Kind::Object => Some(set_at(params, convention.token_path, token)),
        Some(_) => None,
    }
}

/// A search for the progress token of a request.
#[derive(Debug, Clone)]
pub struct ProgressTokenFinder {
    token_path: &'static [&'static str],
    /// Searches for the innermost name of the path. Most requests have no token, and for them this search is cheaper
    /// than looking at every member.
    finder: memchr::memmem::Finder<'static>,
}

impl ProgressTokenFinder {
    /// Creates a search for the tokens of this convention.
    pub fn new(progress: ProgressConvention) -> Self {
        let name = progress.token_path.last().copied().unwrap_or_default();
        Self { token_path: progress.token_path, finder: memchr::memmem::Finder::new(name.as_bytes()) }
    }

    /// Returns the progress token in `params`, or `None` if there is no token.
    #[inline]
    pub fn find<'a>(&self, params: Option<Params<'a>>) -> Option<Id<'a>> {
        let params = params?.json();
        let text = params.as_bytes();
        // The name can be written with escapes, so a text with a backslash is searched too.
        let may_have_token = self.finder.find(text).is_some() || memchr::memchr(b'\\', text).is_some();
        if may_have_token { self.find_in_members(params) } else { None }
    }

    #[cold]
    fn find_in_members<'a>(&self, params: Json<'a>) -> Option<Id<'a>> {
        params.at(self.token_path).and_then(Id::from_json)
    }
}

/// Returns the object `at` with `token` set at `path`.
fn set_at(at: Json<'_>, path: &[&str], token: &Id<'_>) -> String {
    let [name, rest @ ..] = path else { return token.to_string() };
    let text = at.as_str();
    let there = at.members().filter(|member| member.name == *name).last();
    match there {
        Some(there) => {
            let inner = match there.value.kind() {
                Kind::Object if !rest.is_empty() => set_at(there.value, rest, token),
                _ => nested(rest, token),
            };
            let (before, after) = (&text[..there.value_at], &text[there.value_at + there.value.as_bytes().len()..]);
            format!("{before}{inner}{after}")
        }
        None => {
            let comma = if at.members().next().is_some() { "," } else { "" };
            format!(r#"{{"{name}":{}{comma}{}"#, nested(rest, token), &text[1..])
        }
    }
}

/// Returns `token` nested in one object for each name of `path`.
fn nested(path: &[&str], token: &Id<'_>) -> String {
    path.iter().rfold(token.to_string(), |inner, name| format!(r#"{{"{name}":{inner}}}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_set_at_the_path_of_the_convention() {
        let token = Id::from(7);
        let ask = |conventions: Conventions, params: Option<&str>| {
            let params = params.map(|params| Json::parse(params.as_bytes()).expect("JSON"));
            with_progress_token(&conventions.progress, params, &token)
        };
        for (params, expected) in [
            (None, Some(r#"{"_meta":{"progressToken":7}}"#)),
            (Some("{}"), Some(r#"{"_meta":{"progressToken":7}}"#)),
            (Some(r#"{ "a":1}"#), Some(r#"{"_meta":{"progressToken":7}, "a":1}"#)),
            (Some(r#"{"_meta":{"x":1},"a":1}"#), Some(r#"{"_meta":{"progressToken":7,"x":1},"a":1}"#)),
            (Some(r#"{"_meta":{"progressToken":"old"}}"#), Some(r#"{"_meta":{"progressToken":7}}"#)),
            (Some(r#"{"_meta":5}"#), Some(r#"{"_meta":{"progressToken":7}}"#)),
            (Some("[1]"), None),
        ] {
            assert_eq!(ask(Conventions::MCP, params).as_deref(), expected, "{params:?}");
        }
        assert_eq!(ask(Conventions::JSON_RPC, None).as_deref(), Some(r#"{"workDoneToken":7}"#));
        let with_token = ask(Conventions::MCP, Some("{}")).expect("an object");
        let params = Json::parse(with_token.as_bytes()).ok().and_then(Params::from_json);
        assert_eq!(ProgressTokenFinder::new(Conventions::MCP.progress).find(params), Some(token));
        let escaped = br#"{"_m\u0065ta":{"progress\u0054oken":7}}"#;
        let params = Json::parse(escaped).ok().and_then(Params::from_json);
        assert_eq!(ProgressTokenFinder::new(Conventions::MCP.progress).find(params), Some(Id::from(7)));
    }

    #[test]
    fn a_value_stands_beside_its_token_or_in_a_member() {
        let token = Id::from("t");
        let report = |conventions: Conventions, value: &str| {
            progress_params(&conventions.progress, &token, Json::parse(value.as_bytes()).expect("JSON"))
        };
        assert_eq!(
            report(Conventions::MCP, r#"{"progress":1}"#).as_deref(),
            Some(r#"{"progressToken":"t","progress":1}"#)
        );
        assert_eq!(report(Conventions::MCP, "{}").as_deref(), Some(r#"{"progressToken":"t"}"#));
        assert_eq!(report(Conventions::MCP, "1"), None);
        assert_eq!(report(Conventions::JSON_RPC, "1").as_deref(), Some(r#"{"token":"t","value":1}"#));
    }
}
