//! Passes a call on to grpcio's server, which listens on a socket of this process: headers, bytes and trailers, both
//! ways as they come. Whoever ends it, the other side hears of it.
//!
//! Each side is read only as fast as the other takes it (flow control), so a call in passing holds a window, not more.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{HOST, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request, Response, Uri};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::connection::Connected;
use crate::guard::Surely;
use crate::message::see_out;
use crate::reply::{refusal, write};
use crate::settings::{FRAME_BYTES, HEADER_BYTES, Settings, UNREAD_CALLS};

const UNKNOWN: u8 = 2;
const UNAVAILABLE: u8 = 14;
/// Says by which connection a call came (`passed_on.py`). What its caller writes there is not passed on.
const CONNECTION: HeaderName = HeaderName::from_static("timerd-connection");

/// The connection to grpcio that the calls of one caller's connection share. It is opened by the first of them.
pub struct Upstream(Mutex<Option<SendRequest<Bytes>>>);

impl Upstream {
    pub const fn new() -> Self {
        Self(Mutex::const_new(None))
    }

    async fn ready(&self, settings: &Settings) -> Option<SendRequest<Bytes>> {
        let mut kept = self.0.lock().await;
        if let Some(sender) = kept.clone()
            && let Ok(ready) = sender.ready().await
        {
            return Some(ready);
        }
        let sender = connect(settings).await?;
        *kept = Some(sender.clone());
        sender.ready().await.ok()
    }
}

async fn connect(settings: &Settings) -> Option<SendRequest<Bytes>> {
    let stream = UnixStream::connect(&settings.upstream).await.ok()?;
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(settings.unread_bytes)
        .initial_connection_window_size(settings.unread_bytes * UNREAD_CALLS)
        .max_header_list_size(HEADER_BYTES)
        .data_frame_budget(FRAME_BYTES)
        // grpcio attacks nobody: what it still says in calls that were taken back has no end in number.
        .max_local_error_reset_streams(None);
    let (sender, connection) = builder.handshake(stream).await.ok()?;
    tokio::spawn(Surely::new(async {
        // Its calls hear how it ended.
        let _ = connection.await;
    }));
    Some(sender)
}

/// `read`: what was read of the body already.
pub async fn serve(request: Request<RecvStream>, read: Bytes, respond: SendResponse<Bytes>, connected: Arc<Connected>) {
    connected.shared.exchange.figures.relayed.fetch_add(1, Ordering::Relaxed);
    let (head, mut body) = request.into_parts();
    match passed_head(head, connected.number) {
        None => write(refusal(UNKNOWN, "Missing :authority header"), respond),
        Some(head) => match connected.upstream.ready(&connected.shared.settings).await {
            None => write(refusal(UNAVAILABLE, "The server is going away: repeat the call."), respond),
            Some(sender) => pass(Request::from_parts(head, ()), &mut body, read, respond, sender).await,
        },
    }
    see_out(&mut body).await;
}

/// With the number of its connection; and with its host as the authority, where only that is there, as grpcio takes it.
/// None: it has neither, which HTTP/2 on the way could not carry.
fn passed_head(mut head: Parts, connection: u64) -> Option<Parts> {
    head.headers.insert(CONNECTION, HeaderValue::from(connection));
    if head.uri.authority().is_none() {
        let host = head.headers.remove(HOST)?;
        let mut uri = head.uri.into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
        head.uri = Uri::from_parts(uri).ok()?;
    }
    Some(head)
}

async fn pass(
    request: Request<()>,
    body: &mut RecvStream,
    read: Bytes,
    mut respond: SendResponse<Bytes>,
    mut sender: SendRequest<Bytes>,
) {
    let is_over = read.is_empty() && body.is_end_stream();
    let Ok((response, mut up)) = sender.send_request(request, is_over) else {
        return write(refusal(UNAVAILABLE, "The server did not take the call: repeat it."), respond);
    };
    let asking = async {
        if !is_over && ask(read, body, &mut up).await.is_err() {
            up.send_reset(Reason::CANCEL);
        }
        // It is over when its answer is.
        std::future::pending::<()>().await;
    };
    let answering = async {
        let answer = tokio::select! {
            biased;
            // A caller that is gone is not answered; what was asked is taken back as `response` is dropped.
            _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
            answer = response => answer,
        };
        match answer {
            Ok(answer) => answer_with(answer, &mut respond).await,
            Err(error) => respond.send_reset(error.reason().unwrap_or(Reason::CANCEL)),
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

async fn ask(read: Bytes, body: &mut RecvStream, up: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    send(read, up).await?;
    match pour(body, up).await? {
        Some(trailers) => up.send_trailers(trailers),
        None => up.send_data(Bytes::new(), true),
    }
}

async fn answer_with(answer: Response<RecvStream>, respond: &mut SendResponse<Bytes>) {
    let (head, mut body) = answer.into_parts();
    let is_over = body.is_end_stream();
    let Ok(mut down) = respond.send_response(Response::from_parts(head, ()), is_over) else {
        return;
    };
    if is_over {
        return;
    }
    let ended = match pour(&mut body, &mut down).await {
        Ok(Some(trailers)) => down.send_trailers(trailers),
        Ok(None) => down.send_data(Bytes::new(), true),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        down.send_reset(error.reason().unwrap_or(Reason::CANCEL));
    }
}

/// All data of one side to the other; returns what follows them.
async fn pour(from: &mut RecvStream, to: &mut SendStream<Bytes>) -> Result<Option<HeaderMap>, h2::Error> {
    loop {
        let part = tokio::select! {
            biased;
            // While nothing comes, the other side may end it.
            reason = poll_fn(|cx| to.poll_reset(cx)) => return Err(reason?.into()),
            part = from.data() => part,
        };
        let Some(part) = part.transpose()? else {
            return from.trailers().await;
        };
        let bytes = part.len();
        send(part, to).await?;
        from.flow_control().release_capacity(bytes)?;
    }
}

/// As fast as the other side takes it.
async fn send(mut data: Bytes, to: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    while !data.is_empty() {
        to.reserve_capacity(data.len());
        while to.capacity() == 0 {
            match poll_fn(|cx| to.poll_capacity(cx)).await {
                Some(room) => room?,
                None => return Err(Reason::CANCEL.into()),
            };
        }
        let room = to.capacity().min(data.len());
        to.send_data(data.split_to(room), false)?;
    }
    Ok(())
}
