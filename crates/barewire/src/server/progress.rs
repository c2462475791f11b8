//! Converts numbers and text of many types into the params of a progress notification.

use barewire_proto::mcp::Revision;
use serde::Serialize;
use serde_json::Number;

/// The amount of work done: an integer of up to 64 bits, which is sent as an integer, or a float.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an amount of progress",
    label = "not a number",
    note = "an amount is an integer of up to 64 bits or a float"
)]
pub trait ProgressAmount: sealed::IntoNumber {}

/// The total amount of work: a number as in [`ProgressAmount`], or `None` if the total is not known.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a total of progress",
    label = "not a number",
    note = "a total is an integer of up to 64 bits, a float, an `Option<f64>`, or `None` if it is not known"
)]
pub trait ProgressTotal: sealed::IntoNumber {}

/// A progress message for people: text, or `None`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a progress message",
    label = "not text",
    note = "a progress message is a `&str`, a `String`, a `&String`, an `Option<&str>`, or `None`"
)]
pub trait ProgressText: sealed::AsText {}

pub(super) mod sealed {
    use serde_json::Number;

    pub trait IntoNumber {
        /// Returns the number, or `None` if no number is given or JSON cannot express it (infinity, NaN).
        fn into_number(self) -> Option<Number>;
    }

    pub trait AsText {
        fn as_text(&self) -> Option<&str>;
    }
}

use sealed::{AsText, IntoNumber};

/// The params of a progress notification, without its token.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    progress: &'a Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        progress: &'a Number,
        total: impl ProgressTotal,
        message: &'a impl ProgressText,
        revision: Revision,
    ) -> Self {
        let message = message.as_text().filter(|_| revision.has_progress_message());
        Self { progress, total: total.into_number(), message }
    }
}

/// Returns progress as the message that describes the status of a task, such as `reading (3/12)`.
pub(super) fn progress_message(progress: &Number, total: impl ProgressTotal, message: &impl ProgressText) -> String {
    let amount = match total.into_number() {
        Some(total) => format!("{progress}/{total}"),
        None => progress.to_string(),
    };
    match message.as_text() {
        Some(message) => format!("{message} ({amount})"),
        None => amount,
    }
}

macro_rules! numbers {
    ($($number:ty => $convert:expr;)*) => {$(
        impl IntoNumber for $number {
            fn into_number(self) -> Option<Number> {
                let convert: fn($number) -> Option<Number> = $convert;
                convert(self)
            }
        }
        impl ProgressAmount for $number {}
        impl ProgressTotal for $number {}
    )*};
}

numbers! {
    i8 => |it| Some(it.into());
    i16 => |it| Some(it.into());
    i32 => |it| Some(it.into());
    i64 => |it| Some(it.into());
    isize => |it| Some(it.into());
    u8 => |it| Some(it.into());
    u16 => |it| Some(it.into());
    u32 => |it| Some(it.into());
    u64 => |it| Some(it.into());
    usize => |it| Some(it.into());
    f32 => |it| Number::from_f64(it.into());
    f64 => Number::from_f64;
}

// This is the only `Option` that implements `ProgressTotal`, so that the compiler can infer the type of a bare `None`.
impl IntoNumber for Option<f64> {
    fn into_number(self) -> Option<Number> {
        self.and_then(Number::from_f64)
    }
}
impl ProgressTotal for Option<f64> {}

macro_rules! texts {
    ($($text:ty)*) => {$(
        impl AsText for $text {
            fn as_text(&self) -> Option<&str> {
                Some(self)
            }
        }
        impl ProgressText for $text {}
    )*};
}

texts!(&str String &String);

// This is the only `Option` that implements `ProgressText`, so that the compiler can infer the type of a bare `None`.
impl AsText for Option<&str> {
    fn as_text(&self) -> Option<&str> {
        *self
    }
}
impl ProgressText for Option<&str> {}
