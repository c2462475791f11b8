//! Every test of the program, in one binary: it links once, and tests that wait do so side by side.

mod checked;
mod eventually;
mod http_server;
mod program_output;

mod attach;
mod bench;
mod call;
mod call_mcp;
mod check;
mod check_captures;
mod check_http;
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
mod replay;
mod replay_ended;
mod replay_http;
mod secrets;
mod tap;
mod tap_http;
