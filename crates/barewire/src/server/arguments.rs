//! Temporary.
use barewire_proto::json::Json;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub(super) struct Arguments<T>(std::marker::PhantomData<fn() -> T>);
pub(super) struct BadArguments(String);
impl std::fmt::Display for BadArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl<T: DeserializeOwned> Arguments<T> {
    pub(super) fn of(_: &RawValue) -> Result<Self, String> {
        Ok(Self(std::marker::PhantomData))
    }
    pub(super) fn read(&self, given: Option<Json<'_>>) -> Result<T, BadArguments> {
        let text = given.map_or("{}", Json::as_str);
        serde_json::from_str(text)
            .or_else(|e| serde_json::from_str("null").map_err(|_| BadArguments(e.to_string())))
    }
}
