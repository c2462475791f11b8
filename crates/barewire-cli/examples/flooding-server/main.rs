//! A server that sends more than anybody asked for, without end, or that never reads: on stdio, or with `--http` at a
//! URL that it prints. `--floods` lists the floods of both.
//!
//! On stdio, the flood begins at once; with `--after N` it begins when N requests were answered. Requests that arrive
//! during the flood are not answered.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the URL and the list of floods are its output")]

mod http;
mod stdio;

use std::process::exit;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let Some(flood) = args.first() else {
        eprintln!("usage: flooding-server FLOOD [--after N] | FLOOD --http | --floods");
        exit(2);
    };
    let after = value("--after").map_or(0, |number| number.parse().expect("a number"));
    let is_known = match flood.as_str() {
        "--floods" => {
            stdio::FLOODS.iter().for_each(|flood| println!("stdio {}", flood.name));
            http::FLOODS.iter().for_each(|name| println!("http {name}"));
            true
        }
        name if args.iter().any(|arg| arg == "--http") => http::serve(name),
        name => stdio::serve(name, after),
    };
    if !is_known {
        eprintln!("unknown flood {flood}");
        exit(2);
    }
}
