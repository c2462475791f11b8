//~ `bool` cannot be the result of a prompt
//~ returns a type that is not a result of a prompt
//~ a prompt returns text, a `PromptMessage`, several of them or `GetPromptResult`; or a `Result` of one of these, with an error that turns into a `Failure`
use barewire::server::Prompt;

pub fn prompt() -> Prompt {
    Prompt::new("sure", "Is sure", || async { true })
}
