//~ `bool` cannot be the contents of a resource
//~ returns a type that is not the contents of a resource
//~ a resource returns text, bytes (`Vec<u8>`), `ResourceContents`, several of them or `ReadResourceResult`; or a `Result` of one of these, with an error that turns into a `Failure`
use barewire::server::Resource;

pub fn resource() -> Resource {
    Resource::new("case://sure", "sure", || async { true })
}
