//! A list of fields -> methods that set them one by one, for types that others cannot build by naming their fields.

/// Writes a setter for each field: it has the field's name, takes its value, and returns the whole, so that calls chain.
///
/// The list repeats the types of the fields. `Option<…>` means that the setter takes what is inside, and `impl Into<…>` that
/// it takes what can become that.
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
