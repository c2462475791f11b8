//! Every test of the program, in one binary: it links once, and tests that wait do so side by side.

mod checked;
mod eventually;
mod http_server;
#[path = "../../barewire/tests/oauth/party.rs"]
#[allow(dead_code, reason = "the tests of the library use all of it")]
mod party;
mod program_output;

mod attach;
mod bench;
mod call;
mod call_mcp;
mod call_tasks;
mod check;
mod check_captures;
mod check_host;
mod check_http;
mod check_origin;
mod check_pin;
mod check_slow;
mod control_text;
mod demo;
mod floods;
mod http;
mod layers;
mod links;
mod manners;
mod memory;
mod program;
mod program_word;
mod read;
mod read_export;
mod read_imports;
mod replay;
mod replay_ended;
mod replay_http;
mod secrets;
mod stored_sign_in;
mod tap;
mod tap_http;
mod view;
mod view_live;
