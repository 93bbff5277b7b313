//! Ten minutes of callers that are nearly ones: conversations of HTTP/2 with bytes, frames and ends that were changed,
//! by a seed. Whatever comes, the door goes on, and when the connection is gone nothing of it is left.
//!
//! `cargo test --release -- --ignored --nocapture drawn_conversations`; `FUZZ_SECONDS` and `FUZZ_SEED` say how much and
//! which. A mistake ends the process (`guard`); the last seed that was printed, and up to a hundred more, has it.

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server;
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::connection::{Shown, speak};
use crate::door::{Phase, Shared};
use crate::exchange::Answer;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PASSED, PING, PLAIN, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    call, frame, headers, preface, shared,
};
use crate::guard::Surely;
use crate::message::framed;

/// Of the caller and the door, until somebody reads.
const PIPE_BYTES: usize = 1 << 16;
/// The connection ends of itself within it: longer than a call may take to part.
const PATIENCE: Duration = Duration::from_secs(120);

/// Splitmix64: the same numbers from the same seed everywhere.
struct Drawn(u64);

impl Drawn {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.byte()).collect()
    }
}

/// Frames of some calls, in an order that somebody could send them in.
fn conversation(drawn: &mut Drawn) -> Vec<Vec<u8>> {
    let mut frames = vec![preface()];
    for at in 0..=u32::try_from(drawn.below(6)).unwrap() {
        let stream = 2 * at + 1;
        let path = drawn.one(&[PLAIN, PLAIN, PASSED, "/a/B?c", "*", ""]);
        let more = drawn.one(&[
            &[][..],
            &[("grpc-timeout", "5m")],
            &[("grpc-timeout", "1S"), ("x-one-bin", "QUI=")],
            &[("grpc-encoding", "gzip")],
            &[("te", "trailers"), ("content-length", "3")],
            &[("host", "a")],
        ]);
        let block = headers(path, more);
        let message = drawn.bytes(300);
        match drawn.below(5) {
            0 => frames.push(call(stream, path, &message)),
            1 => {
                let (first, rest) = block.split_at(drawn.below(block.len()));
                frames.push(frame(HEADERS, 0, stream, first));
                frames.push(frame(CONTINUATION, END_HEADERS, stream, rest));
            }
            _ => frames.push(frame(HEADERS, END_HEADERS, stream, &block)),
        }
        for part in framed(&message).unwrap().chunks(drawn.below(64) + 1) {
            frames.push(frame(DATA, 0, stream, part));
        }
        frames.push(last(drawn, stream));
    }
    frames
}

fn last(drawn: &mut Drawn, stream: u32) -> Vec<u8> {
    let (sure, word) = (drawn.bytes(9), u32::try_from(drawn.below(1 << 20)).unwrap().to_be_bytes());
    match drawn.below(7) {
        0 => frame(RST_STREAM, 0, stream, &word),
        1 => frame(WINDOW_UPDATE, 0, drawn.one(&[0, stream]), &word),
        2 => frame(PING, 0, 0, &[7; 8]),
        3 => frame(SETTINGS, 0, 0, &[&[0, drawn.byte() % 8], &word[..]].concat()),
        4 => frame(HEADERS, END_HEADERS | END_STREAM, stream, &[]),
        5 => frame(drawn.byte(), drawn.byte(), stream, &sure),
        _ => frame(DATA, END_STREAM, stream, &[]),
    }
}

fn spoilt(drawn: &mut Drawn, frames: &mut Vec<Vec<u8>>) {
    for _ in 0..drawn.below(4) {
        let (at, other) = (drawn.below(frames.len()), drawn.below(frames.len()));
        let place = drawn.below(frames[at].len());
        match drawn.below(7) {
            0 => frames[at][place] = drawn.byte(),
            1 => frames[at][place] ^= 1 << drawn.below(8),
            2 => frames[at].truncate(place),
            3 => frames.swap(at, other),
            4 => frames.insert(at, frames[other].clone()),
            5 => drop(frames.remove(at)),
            _ => frames[at] = drawn.bytes(40),
        }
        if frames.iter().all(Vec::is_empty) {
            return frames.push(vec![0]);
        }
        frames.retain(|frame| !frame.is_empty());
    }
}

/// grpcio's part: whatever comes is answered, some of it before its end.
async fn behind(listener: UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(mut connection) = server::handshake(stream).await else { return };
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if let Ok(mut down) = respond.send_response(Response::new(()), false) {
                    let _ = down.send_data(Bytes::from_static(b"\0\0\0\0\0"), true);
                }
            }
        });
    }
}

/// Python's part: two calls of three are answered, the others are left until they are gone.
fn answer(shared: &Shared) {
    let calls = shared.exchange.take(100).calls;
    let answered = calls.iter().filter(|call| call.number % 3 != 0);
    let reply = || Answer::Reply(framed(b"reply").unwrap());
    shared.exchange.answer(answered.map(|call| (call.number, reply())).collect());
}

async fn played(shared: &Arc<Shared>, drawn: &mut Drawn) {
    let mut frames = conversation(drawn);
    spoilt(drawn, &mut frames);
    let (mut near, far) = duplex(PIPE_BYTES);
    let (_phase, phase) = watch::channel(Phase::Open);
    let shown = Shown { peer: "fuzz".into(), names: None };
    let until = tokio::time::Instant::now() + Duration::from_secs(1);
    let served = tokio::spawn(Surely::new(speak(far, shown, until, Arc::clone(shared), phase)));
    for frame in frames {
        if near.write_all(&frame).await.is_err() {
            break;
        }
        if drawn.below(3) == 0 {
            tokio::task::yield_now().await;
            answer(shared);
        }
    }
    if drawn.below(2) == 0 {
        let _ = near.shutdown().await;
        let mut heard = [0; 4096];
        while matches!(tokio::time::timeout(Duration::from_millis(2), near.read(&mut heard)).await, Ok(Ok(1..))) {
            answer(shared);
        }
    }
    drop(near);
    tokio::time::timeout(PATIENCE, served).await.expect("the connection ends").expect("the connection ends well");
}

/// Calls end a turn or two after their connection.
async fn nothing_is_left(shared: &Shared) {
    for _ in 0..1_000 {
        if shared.exchange.in_hand() == 0 && shared.guests.count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{} calls and {} guests are left", shared.exchange.in_hand(), shared.guests.count());
}

fn play(seed: u64, shared: &Arc<Shared>, runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {
        played(shared, &mut Drawn(seed)).await;
        nothing_is_left(shared).await;
    });
}

fn run(first: u64, until: impl Fn(u64) -> bool) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (shared, listener) = {
        let _inside = runtime.enter();
        shared()
    };
    runtime.spawn(behind(listener));
    let exchange = Arc::clone(&shared.exchange);
    runtime.spawn(async move { exchange.hand_out().await });
    let mut seed = first;
    while !until(seed - first) {
        if (seed - first).is_multiple_of(100) {
            println!("seed {seed}");
        }
        play(seed, &shared, &runtime);
        seed += 1;
    }
    let figures = &shared.exchange.figures;
    println!("{} conversations, {:?} calls, {:?} passed on", seed - first, figures.calls, figures.relayed);
    assert!(figures.calls.load(std::sync::atomic::Ordering::Relaxed) > 0);
    let _ = std::fs::remove_file(&shared.settings.upstream);
    seed - first
}

fn told(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn some_drawn_conversations_leave_nothing() {
    run(38, |count| count == 200);
}

#[test]
#[ignore = "takes ten minutes"]
fn drawn_conversations_leave_nothing() {
    let (begun, lasts) = (Instant::now(), Duration::from_secs(told("FUZZ_SECONDS", 600)));
    run(told("FUZZ_SEED", 1_000), |_| begun.elapsed() > lasts);
}
