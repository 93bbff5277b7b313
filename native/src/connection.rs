//! One connection of HTTP/2, from its first words to its last: each stream of it is a call.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::call;
use crate::certificate::Names;
use crate::door::{Phase, Shared};
use crate::guard::Surely;
use crate::headers::{bytes_of, plain};
use crate::keepalive;
use crate::message::see_out;
use crate::relay::{self, Upstream};
use crate::reply::{refusal, write};
use crate::settings::{FRAME_BYTES, HANDSHAKE, HEADER_BYTES, REFUSED_HEADER_BYTES, Settings, TAKEN_BACK, UNREAD_CALLS};

const RESOURCE_EXHAUSTED: u8 = 8;

/// What a caller has shown of itself.
pub struct Shown {
    /// As grpcio writes it.
    pub peer: String,
    /// Of its certificate, which was verified.
    pub names: Option<Names>,
}

/// What the calls of one connection share.
pub struct Connected {
    /// By which Python finds what was shown, for calls that are passed on.
    pub number: u64,
    pub shown: Arc<Shown>,
    pub shared: Arc<Shared>,
    pub upstream: Upstream,
}

impl Connected {
    fn new(shown: Shown, shared: Arc<Shared>) -> Arc<Self> {
        let shown = Arc::new(shown);
        let number = shared.guests.put(Arc::clone(&shown));
        Arc::new(Self { number, shown, shared, upstream: Upstream::new() })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.shared.guests.forget(self.number);
    }
}

pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, mut phase: watch::Receiver<Phase>) {
    let _ = stream.set_nodelay(true);
    let (until, peer) = (Instant::now() + HANDSHAKE, named(peer));
    let Some(tls) = &shared.settings.tls else {
        return speak(stream, Shown { peer, names: None }, until, Arc::clone(&shared), phase).await;
    };
    let greeted = tokio::select! {
        greeted = timeout_at(until, tls.greet(stream, &shared.exchange)) => greeted,
        _ = phase.wait_for(|phase| *phase != Phase::Open) => return,
    };
    if let Ok(Ok((stream, names))) = greeted {
        speak(stream, Shown { peer, names }, until, Arc::clone(&shared), phase).await;
    }
}

pub async fn speak<S>(stream: S, shown: Shown, until: Instant, shared: Arc<Shared>, mut phase: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = settings_of(&shared.settings).handshake::<_, Bytes>(stream);
    let Ok(Ok(mut connection)) = timeout_at(until, handshake).await else {
        return;
    };
    let pings = connection.ping_pong();
    let connected = Connected::new(shown, Arc::clone(&shared));
    let gone = keepalive::watch(pings, &shared.settings);
    tokio::pin!(gone);
    let mut is_draining = false;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => begin(request, respond, &connected),
                Some(Err(_)) | None => return,
            },
            () = &mut gone => return,
            _ = phase.wait_for(|phase| *phase != Phase::Open), if !is_draining => {
                is_draining = true;
                connection.graceful_shutdown();
            }
        }
    }
}

fn settings_of(settings: &Settings) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(settings.unread_bytes)
        .initial_connection_window_size(settings.unread_bytes * UNREAD_CALLS)
        .max_concurrent_streams(settings.calls_per_connection)
        .max_header_list_size(HEADER_BYTES)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .data_frame_budget(FRAME_BYTES);
    builder
}

fn begin(mut request: Request<RecvStream>, respond: SendResponse<Bytes>, connected: &Arc<Connected>) {
    if bytes_of(&request) > REFUSED_HEADER_BYTES {
        write(refusal(RESOURCE_EXHAUSTED, "The headers of the call are longer than 16 KiB."), respond);
        tokio::spawn(Surely::new(async move { see_out(request.body_mut()).await }));
        return;
    }
    let connected = Arc::clone(connected);
    match plain(&request, &connected.shared.settings) {
        Some(plain) => tokio::spawn(Surely::new(call::serve(plain, request, respond, connected))),
        None => tokio::spawn(Surely::new(relay::serve(request, Bytes::new(), respond, connected))),
    };
}

fn named(peer: SocketAddr) -> String {
    match peer {
        SocketAddr::V4(address) => format!("ipv4:{address}"),
        SocketAddr::V6(address) => format!("ipv6:%5B{}%5D:{}", address.ip(), address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use crate::frames::{
        self, DATA, END_HEADERS, END_STREAM, HEADERS, PASSED, PLAIN, SETTINGS, call, frame, preface, shared,
    };

    /// The calls that have come when all that the caller wrote was read. It fails if the caller was cut off.
    async fn calls_of(written: &[u8], until: usize) -> usize {
        let (shared, listener) = shared();
        let behind = tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0;
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut held = Vec::new();
            while let Some(Ok(call)) = connection.accept().await {
                held.push(call);
            }
        });
        let (mut near, far) = duplex(written.len());
        let (_phase, phase) = watch::channel(Phase::Open);
        let shown = Shown { peer: "test".into(), names: None };
        let mut served = tokio::spawn(speak(far, shown, Instant::now() + HANDSHAKE, Arc::clone(&shared), phase));
        near.write_all(&preface()).await.unwrap();
        // The windows of the door are in force when its settings were acknowledged.
        near.read_u8().await.unwrap();
        near.write_all(&frame(SETTINGS, END_STREAM, 0, &[])).await.unwrap();
        near.write_all(written).await.unwrap();
        let mut come = 0;
        while come < until {
            tokio::select! {
                ended = &mut served => panic!("the connection is over: {ended:?}"),
                () = tokio::task::yield_now() => come += shared.exchange.take(until).calls.len(),
            }
        }
        behind.abort();
        let _ = std::fs::remove_file(&shared.settings.upstream);
        come
    }

    #[tokio::test]
    async fn who_sends_small_messages_that_nobody_reads_is_held_back_and_not_cut_off() {
        let small = frame(DATA, 0, 1, &[7; 40]);
        let head = frame(HEADERS, END_HEADERS, 1, &frames::headers(PASSED, &[]));
        let stream = [head, small.repeat((512 << 10) / 40)].concat();
        assert_eq!(calls_of(&[stream, call(3, PLAIN, b"message")].concat(), 1).await, 1);
    }

    #[test]
    fn peers_are_named_as_grpcio_names_them() {
        assert_eq!(named("127.0.0.1:7400".parse().unwrap()), "ipv4:127.0.0.1:7400");
        assert_eq!(named("[::1]:7400".parse().unwrap()), "ipv6:%5B::1%5D:7400");
    }
}
