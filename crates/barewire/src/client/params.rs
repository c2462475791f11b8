//! Serializes the params of a call, with the `_meta` members that the revision requires or that the user adds.

use std::collections::BTreeMap;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{ClientCapabilities, Implementation, LoggingLevel, Revision, key};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The members of an object, with their values as unparsed text.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

#[derive(Debug, Clone, Default)]
pub(super) enum CallParams {
    #[default]
    None,
    Members(Members),
    /// An array. MCP has no array params, but a test can send them to a server.
    Array(Box<RawValue>),
}

impl CallParams {
    /// Serializes `params`, which must be an object, an array or null.
    pub(super) fn from_value(params: &(impl Serialize + ?Sized)) -> Result<Self, String> {
        let raw = to_raw_value(params).map_err(|error| error.to_string())?;
        match kind(&raw) {
            Kind::Null => Ok(Self::None),
            Kind::Object => serde_json::from_str(raw.get()).map(Self::Members).map_err(|e| e.to_string()),
            Kind::Array => Ok(Self::Array(raw)),
            other => Err(format!("params must be an object, not {other}")),
        }
    }

    /// Returns params with these members. Members that are null are left out.
    pub(super) fn members<const N: usize>(
        members: [(&str, serde_json::Result<Box<RawValue>>); N],
    ) -> Result<Self, String> {
        let mut object = Members::new();
        for (name, value) in members {
            let value = value.map_err(|error| format!("{name}: {error}"))?;
            if value.get() != "null" {
                object.insert(name.to_owned(), value);
            }
        }
        Ok(Self::Members(object))
    }

    /// Returns the params without these members.
    pub(super) fn without(&self, names: &[&str]) -> Self {
        match self {
            Self::Members(members) => {
                let kept = members.iter().filter(|(name, _)| !names.contains(&name.as_str()));
                Self::Members(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            other => other.clone(),
        }
    }

    /// Returns the params with `more` added to their members and `meta` added to `_meta`. If `_meta` already has a
    /// member of the same name, the existing value is kept.
    pub(super) fn with(&self, more: Members, meta: Members) -> Result<Self, String> {
        if more.is_empty() && meta.is_empty() {
            return Ok(self.clone());
        }
        let mut members = match self {
            Self::None => Members::new(),
            Self::Members(members) => members.clone(),
            Self::Array(_) => return Err("params must be an object, not an array".to_owned()),
        };
        members.extend(more);
        if !meta.is_empty() {
            let mut merged = meta;
            if let Some(existing) = members.get("_meta") {
                let existing: Members =
                    serde_json::from_str(existing.get()).map_err(|_| "_meta must be an object".to_owned())?;
                merged.extend(existing);
            }
            members.insert("_meta".to_owned(), to_raw(&merged));
        }
        Ok(Self::Members(members))
    }
}

impl Serialize for CallParams {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.serialize_unit(),
            Self::Members(members) => members.serialize(to),
            Self::Array(array) => array.serialize(to),
        }
    }
}

/// Serializes the arguments of a tool or a prompt, which must be an object or null.
pub(super) fn arguments(arguments: &impl Serialize) -> Result<Box<RawValue>, String> {
    let arguments = to_raw_value(arguments).map_err(|error| error.to_string())?;
    match kind(&arguments) {
        Kind::Object | Kind::Null => Ok(arguments),
        other => Err(format!("arguments must be an object, not {other}")),
    }
}

/// Returns the `_meta` members of a modern request: revision, client, capabilities and, if it is set, the log level.
pub(super) fn modern_meta(
    revision: Revision,
    info: &Implementation,
    capabilities: &ClientCapabilities,
    log_level: Option<LoggingLevel>,
) -> Members {
    let mut meta = Members::from([
        (key::PROTOCOL_VERSION.to_owned(), to_raw(&revision)),
        (key::CLIENT_INFO.to_owned(), to_raw(info)),
        (key::CLIENT_CAPABILITIES.to_owned(), to_raw(capabilities)),
    ]);
    if let Some(level) = log_level {
        meta.insert(key::LOG_LEVEL.to_owned(), to_raw(&level));
    }
    meta
}

/// Serializes the `_meta` members that the user adds.
pub(super) fn caller_meta(meta: &impl Serialize) -> Result<Members, String> {
    match CallParams::from_value(meta) {
        Ok(CallParams::Members(meta)) => Ok(meta),
        Ok(CallParams::None) => Ok(Members::new()),
        Ok(CallParams::Array(_)) | Err(_) => Err("_meta must be an object".to_owned()),
    }
}

/// Serializes a value that cannot fail to serialize.
pub(super) fn to_raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("the value contains nothing that JSON cannot represent")
}

fn kind(raw: &RawValue) -> Kind {
    Json::parse(raw.get().as_bytes()).map_or(Kind::Null, Json::kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(params: &CallParams) -> String {
        serde_json::to_string(params).expect("JSON")
    }

    fn extra() -> Members {
        Members::from([("x".to_owned(), to_raw(&1)), ("mine".to_owned(), to_raw(&"ours"))])
    }

    #[test]
    fn text_written_by_the_caller_is_unchanged() {
        let exact = RawValue::from_string(r#"{"n":1.00000000000000000001,"s":"\u0061"}"#.to_owned());
        let params = CallParams::from_value(&exact.expect("JSON")).expect("an object");
        assert_eq!(text(&params), r#"{"n":1.00000000000000000001,"s":"\u0061"}"#);
        let params = CallParams::from_value(&json!({"_meta": {"mine": 5}})).expect("an object");
        let params = params.with(Members::new(), extra()).expect("an object");
        assert_eq!(text(&params), r#"{"_meta":{"mine":5,"x":1}}"#);
    }

    #[test]
    fn meta_can_be_added_to_objects_and_to_no_params() {
        assert_eq!(text(&CallParams::from_value(&()).expect("nothing")), "null");
        let params = CallParams::None.with(Members::new(), extra()).expect("an object");
        assert_eq!(text(&params), r#"{"_meta":{"mine":"ours","x":1}}"#);
        let array = CallParams::from_value(&[1]).expect("an array");
        assert_eq!(text(&array.with(Members::new(), Members::new()).expect("as it is")), "[1]");
        assert!(array.with(Members::new(), extra()).is_err());
        assert!(CallParams::from_value(&5).expect_err("no params").contains("a number"));
    }
}
