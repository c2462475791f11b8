//~ `&str` is not a handler of a method
//~ a handler is an async function or closure that takes a `Context` and its params in this order, and returns `Result<T, Failure>` where `T` can be serialized
//~ the params are one type that implements `Deserialize`: a struct with a field for each parameter, or a tuple
use barewire::peer::Methods;

pub fn methods() -> Methods {
    Methods::new().on("version", "1.0")
}
