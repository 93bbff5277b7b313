//! One plain call: its message is collected, asked of Python, and answered; unless its caller, or its time, goes first.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;
use tokio::time::{Instant, sleep_until};

use crate::connection::Connected;
use crate::exchange::Answer;
use crate::headers::Plain;
use crate::message::{Collected, collect, see_out};
use crate::relay;
use crate::reply::{refusal, write};

const DEADLINE_EXCEEDED: u8 = 4;

pub async fn serve(
    plain: Plain,
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    connected: Arc<Connected>,
) {
    let until = plain.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let most_bytes = connected.shared.settings.message_bytes;
    let collected = tokio::select! {
        collected = collect(request.body_mut(), most_bytes) => collected,
        () = over(until) => {
            write(refusal(DEADLINE_EXCEEDED, "Deadline Exceeded"), respond);
            return see_out(request.body_mut()).await;
        }
    };
    match collected {
        Collected::Message(message) => {
            let answer = answered(plain, message, until, &mut respond, &connected).await;
            if let Some(answer) = answer {
                write(answer, respond);
                see_out(request.body_mut()).await;
            }
        }
        Collected::Odd(read) => relay::serve(request, read, respond, connected).await,
        Collected::Gone => {}
    }
}

/// None: the caller is gone.
async fn answered(
    plain: Plain,
    message: Bytes,
    until: Option<Instant>,
    respond: &mut SendResponse<Bytes>,
    connected: &Connected,
) -> Option<Answer> {
    let Plain { method, metadata, .. } = plain;
    let mut asked = connected.shared.exchange.ask(method, message, metadata, Arc::clone(&connected.shown));
    tokio::select! {
        // Who asks and hangs up in one breath is gone.
        biased;
        _ = poll_fn(|cx| respond.poll_reset(cx)) => None,
        answer = &mut asked.answer => answer.ok(),
        () = over(until) => Some(refusal(DEADLINE_EXCEEDED, "Deadline Exceeded")),
    }
}

async fn over(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
