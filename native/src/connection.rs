//! One connection of HTTP/2, from its first words to its last: each stream of it is a call.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::call;
use crate::door::{Phase, Shared};
use crate::guard::Surely;
use crate::headers::{bytes_of, plain};
use crate::keepalive;
use crate::relay::{self, Upstream};
use crate::reply::{refusal, write};
use crate::settings::{HANDSHAKE, HEADER_BYTES, REFUSED_HEADER_BYTES, Settings, TAKEN_BACK, UNREAD_CALLS};

const RESOURCE_EXHAUSTED: u8 = 8;

/// What the calls of one connection share.
pub struct Connected {
    pub shared: Arc<Shared>,
    /// As grpcio writes it.
    pub peer: Arc<str>,
    pub upstream: Upstream,
}

pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, mut phase: watch::Receiver<Phase>) {
    let _ = stream.set_nodelay(true);
    let handshake = settings_of(&shared.settings).handshake::<_, Bytes>(stream);
    let Ok(Ok(mut connection)) = timeout(HANDSHAKE, handshake).await else {
        return;
    };
    let pings = connection.ping_pong();
    let upstream = Upstream::new();
    let connected = Arc::new(Connected { shared: Arc::clone(&shared), peer: named(peer).into(), upstream });
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
        .max_pending_accept_reset_streams(TAKEN_BACK);
    builder
}

fn begin(request: Request<RecvStream>, respond: SendResponse<Bytes>, connected: &Arc<Connected>) {
    if bytes_of(&request) > REFUSED_HEADER_BYTES {
        return write(refusal(RESOURCE_EXHAUSTED, "The headers of the call are longer than 16 KiB."), respond);
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

    #[test]
    fn peers_are_named_as_grpcio_names_them() {
        assert_eq!(named("127.0.0.1:7400".parse().unwrap()), "ipv4:127.0.0.1:7400");
        assert_eq!(named("[::1]:7400".parse().unwrap()), "ipv6:%5B::1%5D:7400");
    }
}
