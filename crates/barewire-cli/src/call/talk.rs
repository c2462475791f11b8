//! What the other side says besides its answer -> lines on our stderr.

use std::io::{self, IsTerminal, Write};

use barewire::Failure;
use barewire::peer::{Context, Methods, Raw};
use barewire::proto::transcript::escape;
use barewire::transport::Stderr;

use crate::output::safe_json;

/// Shows notifications and requests, unless they are not wanted, and refuses the requests.
pub(super) fn methods(quiet: bool) -> Methods {
    if quiet {
        return Methods::new();
    }
    Methods::new().fallback(|context: Context, params: Raw| async move {
        let kind = if context.id().is_some() { "refused request" } else { "notification" };
        let params = params.as_str().map_or(String::new(), |params| format!(" {}", safe_json(params)));
        say(format!("{kind} {}{params}", escape(context.method().as_bytes())).into_bytes());
        Err::<Raw, _>(Failure::method_not_found())
    })
}

/// The stderr of a program: to a terminal escaped, to anything else as it is.
pub(super) fn stderr() -> Stderr {
    if io::stderr().is_terminal() { Stderr::inherit() } else { Stderr::lines(|line| say(line.to_vec())) }
}

fn say(mut line: Vec<u8>) {
    line.push(b'\n');
    // In one piece, so that lines of several do not mix. If stderr is closed there is nobody to tell.
    let _ = io::stderr().write_all(&line);
}
