//~ `bool` cannot be the contents of a resource
//~ returns a type that is not the contents of a resource
//~ a resource returns text, bytes (`Vec<u8>`), a `ResourceContents`, a `Vec<ResourceContents>` or a `ReadResourceResult`; or a `Result` of one of these, whose error implements `Into<Failure>`
use barewire::server::Resource;

pub fn resource() -> Resource {
    Resource::new("case://sure", "sure", || async { true })
}
