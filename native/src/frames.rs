//! For tests: a caller that writes its frames of HTTP/2 by hand, and a server behind the door that reads nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::UnixListener;

use crate::door::Shared;
use crate::exchange::Exchange;
use crate::guests::Guests;
use crate::message::framed;
use crate::settings::Settings;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// The one method that is plain, and one that is passed on.
pub const PLAIN: &str = "/a/B";
pub const PASSED: &str = "/a/Passed";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat()
}

/// As a client of gRPC has them, and `more`. Each is a literal, so that what is changed in it stays near.
pub fn headers(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    let mut block = Vec::new();
    for (name, value) in usual.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 0x7f).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// From its first byte to its last.
pub fn call(stream: u32, path: &str, message: &[u8]) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, &headers(path, &[]));
    [head, frame(DATA, END_STREAM, stream, &framed(message).unwrap())].concat()
}

/// What calls of one test share. Whoever listens at `upstream` has to be kept.
pub fn shared() -> (Arc<Shared>, UnixListener) {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let name = format!("timerd-door-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
    let upstream: PathBuf = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&upstream).unwrap();
    let settings = Settings { methods: [(PLAIN.to_string(), 0)].into(), ..Settings::for_tests(upstream) };
    let exchange = Arc::new(Exchange::new().unwrap());
    (Arc::new(Shared { settings, exchange, guests: Guests::default() }), listener)
}
