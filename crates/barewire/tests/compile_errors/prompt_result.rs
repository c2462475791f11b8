//~ `bool` cannot be the result of a prompt
//~ returns a type that is not a result of a prompt
//~ a prompt returns text, a `PromptMessage`, a `Vec<PromptMessage>` or a `GetPromptResult`; or a `Result` of one of these, whose error implements `Into<Failure>`
use barewire::server::Prompt;

pub fn prompt() -> Prompt {
    Prompt::new("sure", "Is sure", || async { true })
}
