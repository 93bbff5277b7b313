//! An answer as HTTP/2 carries it: headers, the message, trailers; of a failure the headers are the trailers.

use bytes::Bytes;
use h2::server::SendResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};

use crate::exchange::Answer;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// What grpcio says that it reads.
const ACCEPTED: HeaderValue = HeaderValue::from_static("identity, deflate, gzip");

/// The caller may be gone, and then nobody hears of it.
pub fn write(answer: Answer, respond: SendResponse<Bytes>) {
    let _ = match answer {
        Answer::Reply(framed) => reply(framed, respond),
        Answer::Failure(trailers) => failure(trailers, respond),
    };
}

fn reply(framed: Bytes, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut head = Response::new(());
    head.headers_mut().insert(CONTENT_TYPE, GRPC);
    head.headers_mut().insert("grpc-accept-encoding", ACCEPTED);
    let mut stream = respond.send_response(head, false)?;
    stream.send_data(framed, false)?;
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    trailers.insert(MESSAGE, HeaderValue::from_static(""));
    stream.send_trailers(trailers)
}

fn failure(mut trailers: HeaderMap, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    trailers.insert(CONTENT_TYPE, GRPC);
    let mut head = Response::new(());
    *head.headers_mut() = trailers;
    respond.send_response(head, true).map(|_| ())
}

/// A failure of the door's own. `said` is text of one line.
pub fn refusal(code: u8, said: &'static str) -> Answer {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from(u16::from(code)));
    trailers.insert(MESSAGE, HeaderValue::from_static(said));
    Answer::Failure(trailers)
}
