//! Generates setter methods for `#[non_exhaustive]` types, which other crates cannot construct by naming the fields.

/// Generates a setter for each listed field. The setter has the name of the field, takes the value, and returns `Self`,
/// so that calls can be chained.
///
/// The list repeats the types of the fields. For `Option<…>` the setter takes the inner type; for `impl Into<…>` it
/// takes any type that converts into the field's type.
macro_rules! setters {
    ($type:ident $(<$life:lifetime>)? { $($fields:tt)* }) => {
        impl $(<$life>)? $type $(<$life>)? {
            setters! { @each $($fields)* }
        }
    };
    (@each $field:ident: Option<$value:ty> $(, $($rest:tt)*)?) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        #[must_use]
        #[inline]
        pub fn $field(mut self, $field: $value) -> Self {
            self.$field = Some($field.into());
            self
        }
        setters! { @each $($($rest)*)? }
    };
    (@each $field:ident: $value:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        #[must_use]
        #[inline]
        pub fn $field(mut self, $field: $value) -> Self {
            self.$field = $field.into();
            self
        }
        setters! { @each $($($rest)*)? }
    };
    (@each) => {};
}
