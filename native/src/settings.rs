//! What a door is told when it is made.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::tls::Tls;

pub struct Settings {
    /// The path of a unary method -> its number, by which Python knows it.
    pub methods: HashMap<String, usize>,
    /// The socket of grpcio's server, which takes everything else.
    pub upstream: PathBuf,
    /// Of one connection, open at one time.
    pub calls_per_connection: u32,
    /// A longer message is grpcio's to refuse.
    pub message_bytes: usize,
    /// Of one call, what its sender may have sent and nobody has read.
    pub unread_bytes: u32,
    pub ping_every: Duration,
    pub ping_timeout: Duration,
    /// None: it is not spoken.
    pub tls: Option<Tls>,
}

#[cfg(test)]
impl Settings {
    pub fn for_tests(upstream: impl Into<PathBuf>) -> Self {
        Self {
            methods: HashMap::new(),
            upstream: upstream.into(),
            calls_per_connection: 2_000,
            message_bytes: 1 << 20,
            unread_bytes: 512 << 10,
            ping_every: Duration::from_secs(60),
            ping_timeout: Duration::from_secs(60),
            tls: None,
        }
    }
}

/// Of one connection, what its sender may have sent and nobody has read: some calls at their limit.
pub const UNREAD_CALLS: u32 = 8;
/// What HTTP/2 itself takes: more than grpcio does, so that a refusal has a status of gRPC.
pub const HEADER_BYTES: u32 = 64 << 10;
/// What grpcio refuses in any case, as it counts. From half of it on it refuses some.
pub const REFUSED_HEADER_BYTES: usize = 16 << 10;
pub const PLAIN_HEADER_BYTES: usize = 8 << 10;
/// Connections beyond it wait in the queue of the system.
pub const CONNECTIONS: usize = 20_000;
/// For the first words on a new connection: those of TLS, where it is spoken, and of HTTP/2.
pub const HANDSHAKE: Duration = Duration::from_secs(20);
/// Calls that were taken back before anybody looked at them: a client may do so with all that it has.
pub const TAKEN_BACK: usize = 4_096;
/// Of one connection, what frames that nobody has read may cost beyond what is in them: 256 bytes each, without their
/// own. Senders of messages of some 30 bytes are held back by the windows before that; who sends smaller ones and does
/// not stop is cut off.
pub const FRAME_BYTES: usize = 32 << 20;
/// After its answer a call waits so long for its caller to end it too.
pub const PARTING: Duration = Duration::from_secs(5);
