//! Which calls the door takes, judged by their headers alone.
//!
//! It takes what is plain: a unary method that Python named, one message without compression, headers that are text.
//! Everything else is passed to grpcio as it came, so its answer is grpcio's in every case that nobody thought of.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, Request, header};

use crate::settings::{PLAIN_HEADER_BYTES, Settings};

/// `:method`, `:scheme`, `:path` and `:authority`, without what is in the last two.
const PSEUDO_BYTES: usize = 4 * 32 + ":method".len() + "POST".len() + ":scheme".len() + "http".len() + 15;

/// What the door needs of a plain call.
pub struct Plain {
    pub method: usize,
    pub timeout: Option<Duration>,
    /// `name:value` and a line's end for each header that grpcio would show as metadata.
    pub metadata: Vec<u8>,
}

/// As gRPC counts them: each has 32 bytes beside its own.
pub fn bytes_of<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let pseudo = uri.path().len() + uri.authority().map_or(0, |authority| authority.as_str().len()) + PSEUDO_BYTES;
    request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum::<usize>() + pseudo
}

pub fn plain<B>(request: &Request<B>, settings: &Settings) -> Option<Plain> {
    // With what follows a question mark: grpcio knows no method of that name.
    let path = request.uri().path_and_query()?.as_str();
    let method = *settings.methods.get(path)?;
    let headers = request.headers();
    if !has_plain_head(request) || !has_plain_body(headers) || bytes_of(request) > PLAIN_HEADER_BYTES {
        return None;
    }
    let timeout = match headers.get("grpc-timeout") {
        Some(text) => Some(timeout_of(text.as_bytes())?),
        None => None,
    };
    Some(Plain { method, timeout, metadata: metadata_of(headers)? })
}

/// What grpcio refuses a call for, if it is missing or another one.
fn has_plain_head<B>(request: &Request<B>) -> bool {
    let uri = request.uri();
    let is_http = matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some();
    let te = request.headers().get(header::TE).map(http::HeaderValue::as_bytes);
    request.method() == Method::POST && is_http && te == Some(b"trailers")
}

fn has_plain_body(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let packing = headers.get("grpc-encoding").map(http::HeaderValue::as_bytes);
    matches!(kind, Some(b"application/grpc" | b"application/grpc+proto")) && matches!(packing, None | Some(b"identity"))
}

/// None: what is there has to be judged by grpcio.
fn metadata_of(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut said = [false; OF_TRANSPORT.len()];
    for (name, value) in headers {
        if !is_text(name, value.as_bytes()) {
            return None;
        }
        if let Some(place) = OF_TRANSPORT.iter().position(|own| own == name) {
            // Which of two is in force is not for the door to say.
            if std::mem::replace(&mut said[place], true) {
                return None;
            }
        } else {
            text.extend_from_slice(name.as_str().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
    }
    Some(text)
}

const OF_TRANSPORT: [&str; 6] = ["te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "host"];

fn is_text(name: &HeaderName, value: &[u8]) -> bool {
    let is_shown = value.iter().all(|byte| (0x20..0x7f).contains(byte));
    is_shown && (!name.as_str().ends_with("-bin") || is_base64(value))
}

/// With or without the signs that fill it up. Bits that are left over are zero, or grpcio refuses it; and a comma, by
/// which others join several, it refuses too.
fn is_base64(value: &[u8]) -> bool {
    let filled = value.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &value[..value.len() - filled];
    let is_end = match (digits.len() % 4, digits.last()) {
        (0, _) => filled == 0,
        (2, Some(last)) => b"AQgw".contains(last),
        (3, Some(last)) => filled < 2 && b"AEIMQUYcgkosw048".contains(last),
        _ => false,
    };
    is_end && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// At most eight digits and a unit.
fn timeout_of(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3_600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        assert_eq!(timeout_of(b"250m"), Some(Duration::from_millis(250)));
        assert_eq!(timeout_of(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        assert_eq!(timeout_of(b"7u"), Some(Duration::from_micros(7)));
    }

    #[test]
    fn what_is_no_timeout_is_left_to_grpcio() {
        for text in [&b""[..], b"m", b"-1S", b"1", b"1x", b"123456789S", b"1 S", "1\u{e9}".as_bytes()] {
            assert_eq!(timeout_of(text), None);
        }
    }

    #[test]
    fn metadata_is_what_callers_added() {
        let mut headers = HeaderMap::new();
        headers.insert("te", "trailers".parse().unwrap());
        headers.insert("grpc-timeout", "1S".parse().unwrap());
        headers.append("x-one", "a".parse().unwrap());
        headers.append("x-one", "b: c".parse().unwrap());
        assert_eq!(metadata_of(&headers).unwrap(), b"x-one:a\nx-one:b: c\n");
    }

    fn settings() -> Settings {
        let methods = [("/a/B".to_string(), 7)].into();
        Settings { methods, ..Settings::for_tests("") }
    }

    fn request() -> http::request::Builder {
        Request::post("http://localhost/a/B").header("te", "trailers").header("content-type", "application/grpc")
    }

    fn is_plain(request: http::request::Builder) -> bool {
        plain(&request.body(()).unwrap(), &settings()).is_some()
    }

    #[test]
    fn a_call_as_clients_make_it_is_plain() {
        assert!(is_plain(request().header("grpc-timeout", "1S").header("x-one-bin", "QUI=")));
        assert!(is_plain(request().uri("https://localhost/a/B").header("grpc-encoding", "identity")));
        assert_eq!(plain(&request().body(()).unwrap(), &settings()).unwrap().method, 7);
    }

    #[test]
    fn what_grpcio_refuses_or_reads_in_another_way_is_left_to_it() {
        assert!(
            !is_plain(request().uri("http://localhost/a/B?c")) && !is_plain(request().uri("http://localhost/a/B?"))
        );
        assert!(!is_plain(request().uri("ftp://localhost/a/B")) && !is_plain(request().uri("/a/B")));
        assert!(!is_plain(request().method("PUT")));
        assert!(!is_plain(Request::post("http://localhost/a/B").header("content-type", "application/grpc")));
    }

    #[test]
    fn what_is_said_twice_is_left_to_grpcio() {
        for name in OF_TRANSPORT {
            let mut headers = HeaderMap::new();
            headers.append(name, "1S".parse().unwrap());
            assert!(metadata_of(&headers).is_some());
            headers.append(name, "2S".parse().unwrap());
            assert_eq!(metadata_of(&headers), None);
        }
    }

    #[test]
    fn binary_headers_are_base64() {
        for value in ["", "QQ", "QQ=", "QQ==", "QUI", "QUI=", "QUJD", "+/+/"] {
            assert!(is_base64(value.as_bytes()), "{value}");
        }
        for value in ["Q", "QR", "QUJ", "Q===", "====", "QUJD=", "QU=D", "QUI,QQ", "!!!!", "QQ ", "-_-_"] {
            assert!(!is_base64(value.as_bytes()), "{value}");
        }
        assert!(is_text(&"x-bin".parse().unwrap(), b"QQ") && !is_text(&"x-bin".parse().unwrap(), b"!"));
        assert!(is_text(&"x-one".parse().unwrap(), b"!"));
    }

    proptest! {
        #[test]
        fn a_timeout_is_eight_digits_and_a_unit_or_none(text in "[0-9 +-]{0,10}[HMSmunx]?") {
            let (digits, unit) = text.split_at(text.len().saturating_sub(1));
            let is_one = (1..=8).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && ["H", "M", "S", "m", "u", "n"].contains(&unit);
            prop_assert_eq!(timeout_of(text.as_bytes()).is_some(), is_one);
        }

        #[test]
        fn a_timeout_of_whatever_bytes_ends_nobody(text in vec(any::<u8>(), 0..12)) {
            timeout_of(&text);
        }

        #[test]
        fn each_header_is_one_line_or_all_are_left_to_grpcio(values in vec(vec(any::<u8>(), 0..9), 0..5)) {
            let mut headers = HeaderMap::new();
            for value in &values {
                if let Ok(value) = http::HeaderValue::from_bytes(value) {
                    headers.append("x-one", value);
                }
            }
            if let Some(text) = metadata_of(&headers) {
                prop_assert_eq!(text.split(|byte| *byte == b'\n').count(), headers.len() + 1);
                prop_assert!(text.iter().all(|byte| *byte == b'\n' || (0x20..0x7f).contains(byte)));
            }
        }
    }

    #[test]
    fn headers_that_are_no_text_are_left_to_grpcio() {
        let mut headers = HeaderMap::new();
        headers.insert("x-raw", http::HeaderValue::from_bytes(&[0xe9]).unwrap());
        assert_eq!(metadata_of(&headers), None);
    }

    #[test]
    fn headers_are_counted_as_grpc_counts_them() {
        let request = Request::post("http://a/b").header("x-one", "1234").body(()).unwrap();
        assert_eq!(bytes_of(&request), 4 * 32 + 37 + 3 + 32 + 9);
    }
}
