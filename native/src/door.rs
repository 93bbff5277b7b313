//! The front door: how a call travels through Rust and back.
//!
//! THEORY. A call of gRPC is a stream of HTTP/2: headers, one message, and the answer with its trailers. Most of what
//! such a call costs a server in Python is not its work but this travel, and the turns of the event loop that it takes.
//! So the travel is done here, on one thread of its own, and Python is asked rarely: all calls that came while it was
//! busy are one batch. The busier it is, the larger are its batches and the cheaper is each call.
//!
//! ```text
//!   caller ──TCP──> connection ──> headers: plain? ──yes──> call ──> exchange ──bell──> Python: take()
//!                                        │                                                 │ same handlers as grpcio's
//!                                        no                                                v
//!                                        v                 reply <── call <── exchange <── answer()
//!                                      relay ──unix socket──> grpcio's server in this process
//! ```
//!
//! 1. ONE RULE, ONE PLACE. The door judges nothing: limits, roles, validation, words of errors are Python's. What is
//!    not plain (streams, compression, odd bytes, long headers, unknown paths) goes to grpcio's server as bytes. So a
//!    case that nobody thought of is answered by grpcio, and not by a second opinion about gRPC.
//! 2. NOTHING IS ACKNOWLEDGED HERE. A reply is written when Python has given it, and never before. The door keeps no
//!    state that outlives a connection: a process that is killed loses nothing but connections.
//! 3. WHO WENT IS FORGOTTEN. A caller that resets its stream, a deadline that passes, a connection that breaks: the
//!    guard of the call (`Asked`) is dropped, Python is told the number, and its answer, should it come, is lost. Python
//!    is told which answers were lost, since a delivery that reached nobody must go to somebody else.
//! 4. MEMORY IS BOUNDED BY WINDOWS. A sender may have so many bytes unread in a call and in a connection, so many calls
//!    in a connection, and a message has an end. What Python has in hand is in its own budget.
//! 5. THE LOCK OF PYTHON is never taken by the thread of the door. Python comes for its calls and brings its answers;
//!    both copy bytes under short locks of Rust's own.
//! 6. THE END. `drain` says GOAWAY on all connections and accepts no more; what is in hand goes on. `close` waits a
//!    while until all is written, then drops what is left. A mistake in this crate aborts the process (`guard`).

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::connection::{self, Shown};
use crate::exchange::{Answer, Exchange, locked};
use crate::guard::{Surely, surely};
use crate::guests::Guests;
use crate::message::framed;
use crate::reply::{MESSAGE, STATUS, refusal};
use crate::settings::{CONNECTIONS, Settings};
use crate::tls::{Pem, Tls};

const INTERNAL: u8 = 13;
/// Callers that the system keeps until they are accepted.
const BACKLOG: u32 = 4_096;
/// After an accept that failed, as it does where no descriptor is left.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq)]
pub enum Phase {
    Open,
    Draining,
    /// With so long for what is not written yet.
    Closing(Duration),
}

pub struct Shared {
    pub settings: Settings,
    pub exchange: Arc<Exchange>,
    pub guests: Guests,
}

/// Of a certificate: its alternative names and its common name.
type PyNames<'py> = (Vec<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);
type PyShown<'py> = (String, Option<PyNames<'py>>);
type PyCall<'py> = (u64, usize, Bound<'py, PyBytes>, Bound<'py, PyBytes>, String, Option<PyNames<'py>>);
/// Certificate, key, authority of callers.
type PyPem = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);
type PyFailure = (u64, u16, Vec<u8>, Vec<(String, Vec<u8>)>);

/// What Python has of a door. Its descriptor `bell` is readable when there is something to take.
#[pyclass(frozen)]
pub struct Door {
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Door {
    #[new]
    #[pyo3(signature = (methods, upstream, *, calls_per_connection, message_bytes, unread_bytes, ping_every_ms, ping_timeout_ms, tls))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn new(
        methods: Vec<String>,
        upstream: PathBuf,
        calls_per_connection: u32,
        message_bytes: usize,
        unread_bytes: u32,
        ping_every_ms: u64,
        ping_timeout_ms: u64,
        tls: Option<PyPem>,
    ) -> PyResult<Self> {
        let methods: HashMap<_, _> = methods.into_iter().enumerate().map(|(at, path)| (path, at)).collect();
        let (ping_every, ping_timeout) = (Duration::from_millis(ping_every_ms), Duration::from_millis(ping_timeout_ms));
        let tls = tls.map(|pem| Tls::new(&pem_of(&pem))).transpose().map_err(unusable)?;
        let settings = Settings {
            methods,
            upstream,
            calls_per_connection,
            message_bytes,
            unread_bytes,
            ping_every,
            ping_timeout,
            tls,
        };
        let exchange = Arc::new(Exchange::new()?);
        let shared = Arc::new(Shared { settings, exchange, guests: Guests::default() });
        Ok(Self { shared, phase: watch::channel(Phase::Open).0, thread: Mutex::default() })
    }

    /// Takes calls from now on; returns the port. Raises `OSError`.
    fn listen(&self, host: &str, port: u16) -> PyResult<u16> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listeners, port) = runtime.block_on(async { bound(host, port) })?;
        let (shared, phase) = (Arc::clone(&self.shared), self.phase.subscribe());
        let work = move || surely(|| run(&runtime, listeners, &shared, phase));
        *locked(&self.thread) = Some(Builder::new().name("timerd-door".into()).spawn(work)?);
        Ok(port)
    }

    fn bell(&self) -> i32 {
        self.shared.exchange.bell.descriptor()
    }

    /// Calls that have come, as (number, method, message, metadata, peer, names); numbers of those that are gone; and
    /// the last handshake that knocked, or 0.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> (Vec<PyCall<'py>>, Vec<u64>, u64) {
        let taken = surely(|| self.shared.exchange.take(most));
        let calls = taken.calls.into_iter().map(|call| {
            let (message, metadata) = (PyBytes::new(py, &call.message), PyBytes::new(py, &call.metadata));
            let (peer, names) = shown_to(py, &call.shown);
            (call.number, call.method, message, metadata, peer, names)
        });
        (calls.collect(), taken.gone, taken.knock)
    }

    /// Of a connection that is open: its peer, and the names in its certificate.
    fn shown<'py>(&self, py: Python<'py>, connection: u64) -> Option<PyShown<'py>> {
        self.shared.guests.get(connection).map(|shown| shown_to(py, &shown))
    }

    /// Takes up other files of TLS. Raises `ValueError`, and then those before stay in force.
    #[allow(clippy::needless_pass_by_value)]
    fn renew(&self, pem: PyPem) -> PyResult<()> {
        match &self.shared.settings.tls {
            Some(tls) => tls.renew(&pem_of(&pem)).map_err(unusable),
            None => Err(PyValueError::new_err("this door does not speak TLS")),
        }
    }

    /// Handshakes that have knocked, up to this one, go on.
    fn greet(&self, through: u64) {
        self.shared.exchange.greet(through);
    }

    /// `replies`: (number, message); `failures`: (number, code, message as gRPC writes it, trailers). Returns the
    /// numbers of those that nobody waits for.
    #[allow(clippy::needless_pass_by_value)]
    fn answer(&self, replies: Vec<(u64, Bound<'_, PyBytes>)>, failures: Vec<PyFailure>) -> Vec<u64> {
        let mut answers = Vec::with_capacity(replies.len() + failures.len());
        for (number, message) in replies {
            let reply = framed(message.as_bytes()).map(Answer::Reply);
            answers.push((number, reply.unwrap_or_else(|| refusal(INTERNAL, "The reply is longer than gRPC allows."))));
        }
        for (number, code, message, trailers) in failures {
            answers.push((number, Answer::Failure(trailers_of(code, &message, trailers))));
        }
        surely(|| self.shared.exchange.answer(answers))
    }

    /// Says GOAWAY to all, and accepts nobody any more.
    fn drain(&self) {
        self.phase.send_if_modified(|phase| {
            let is_open = *phase == Phase::Open;
            if is_open {
                *phase = Phase::Draining;
            }
            is_open
        });
    }

    /// Returns when all is written and hung up, at the latest after `wait_ms`.
    fn close(&self, py: Python<'_>, wait_ms: u64) {
        self.phase.send_replace(Phase::Closing(Duration::from_millis(wait_ms)));
        if let Some(thread) = locked(&self.thread).take() {
            // A thread that panicked has ended the process.
            let _ = py.detach(|| thread.join());
        }
    }

    /// How many there were, and how many calls Python has in hand.
    fn figures(&self) -> HashMap<&'static str, u64> {
        let exchange = &self.shared.exchange;
        let figures = &exchange.figures;
        HashMap::from([
            ("connections", figures.connections.load(Ordering::Relaxed)),
            ("calls", figures.calls.load(Ordering::Relaxed)),
            ("relayed", figures.relayed.load(Ordering::Relaxed)),
            ("gone", figures.gone.load(Ordering::Relaxed)),
            ("in_hand", exchange.in_hand() as u64),
        ])
    }
}

/// Raises `ValueError` where the door could not speak TLS with it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn check_tls(pem: PyPem) -> PyResult<()> {
    Tls::new(&pem_of(&pem)).map(|_| ()).map_err(unusable)
}

fn pem_of((certificate, key, client_ca): &PyPem) -> Pem<'_> {
    Pem { certificate, key, client_ca: client_ca.as_deref() }
}

#[allow(clippy::needless_pass_by_value)]
fn unusable(error: tokio_rustls::rustls::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn shown_to<'py>(py: Python<'py>, shown: &Shown) -> PyShown<'py> {
    let names = shown.names.as_ref().map(|names| {
        let alternative = names.alternative.iter().map(|name| PyBytes::new(py, name)).collect();
        (alternative, PyBytes::new(py, &names.common))
    });
    (shown.peer.clone(), names)
}

/// What cannot be written is left out: the answers beside it are of other callers.
fn trailers_of(code: u16, message: &[u8], trailers: Vec<(String, Vec<u8>)>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(trailers.len() + 3);
    map.insert(STATUS, HeaderValue::from(code));
    map.insert(MESSAGE, HeaderValue::from_bytes(message).unwrap_or(HeaderValue::from_static("")));
    for (name, value) in trailers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(&value)) {
            map.append(name, value);
        }
    }
    map
}

/// All addresses of the host, with one port.
fn bound(host: &str, port: u16) -> PyResult<(Vec<TcpListener>, u16)> {
    let mut listeners = Vec::new();
    let mut taken = port;
    for address in (host, port).to_socket_addrs()? {
        let listener = bound_one(SocketAddr::new(address.ip(), taken))?;
        taken = listener.local_addr()?.port();
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err(PyOSError::new_err("the host has no address"));
    }
    Ok((listeners, taken))
}

fn bound_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a server before this one may still be ending.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn run(runtime: &Runtime, listeners: Vec<TcpListener>, shared: &Arc<Shared>, mut phase: watch::Receiver<Phase>) {
    runtime.block_on(async {
        let exchange = Arc::clone(&shared.exchange);
        tokio::spawn(Surely::new(async move { exchange.hand_out().await }));
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        for listener in listeners {
            tokio::spawn(Surely::new(accept(listener, Arc::clone(shared), phase.clone(), alive.clone())));
        }
        drop(alive);
        let closing = phase.wait_for(|phase| matches!(phase, Phase::Closing(_))).await;
        let Ok(Phase::Closing(wait)) = closing.as_deref() else {
            return;
        };
        let wait = *wait;
        drop(closing);
        // Nothing is ever sent: it ends with the last connection.
        let _ = timeout(wait, all_gone.recv()).await;
    });
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut phase: watch::Receiver<Phase>,
    alive: mpsc::Sender<()>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let watched = phase.clone();
    let accepting = async {
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let Ok((stream, peer)) = listener.accept().await else {
                sleep(BREATH).await;
                continue;
            };
            shared.exchange.figures.connections.fetch_add(1, Ordering::Relaxed);
            let serving = connection::serve(stream, peer, Arc::clone(&shared), watched.clone());
            let alive = alive.clone();
            tokio::spawn(Surely::new(async move {
                serving.await;
                drop((place, alive));
            }));
        }
    };
    tokio::select! {
        () = accepting => {}
        _ = phase.wait_for(|phase| *phase != Phase::Open) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_that_cannot_be_written_takes_no_other_along() {
        let given = [("a b", &b"x"[..]), ("timerd-field", b"a\nb"), ("timerd-reason", b"FULL")];
        let trailers = given.map(|(name, value)| (name.to_string(), value.to_vec())).into();
        let written = trailers_of(8, b"Too much.", trailers);
        assert_eq!(written.len(), 3);
        assert_eq!((&written[&STATUS], &written["timerd-reason"]), (&"8".parse().unwrap(), &"FULL".parse().unwrap()));
    }
}
