//! The one message of a unary call, collected from the frames that it came in.

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use tokio::time::timeout;

use crate::settings::PARTING;

/// One byte says whether it is compressed, four how long it is.
pub const PREFIX_BYTES: usize = 5;

#[derive(Debug, PartialEq)]
pub enum Collected {
    Message(Bytes),
    /// What was read so far is no plain message: grpcio has to judge it, and what comes after it.
    Odd(Bytes),
    /// The caller took the call back, or its connection broke.
    Gone,
}

/// Returns when the message is whole, though its sender may not have said that it was the last one: as grpcio does.
pub async fn collect(body: &mut RecvStream, most_bytes: usize) -> Collected {
    let mut held = Held::default();
    loop {
        match judged(held.read(), most_bytes) {
            Judged::Whole => return Collected::Message(held.message()),
            Judged::Odd => return Collected::Odd(held.all()),
            Judged::Partial => {}
        }
        match body.data().await {
            Some(Ok(part)) => {
                let _ = body.flow_control().release_capacity(part.len());
                held.add(part);
            }
            Some(Err(_)) => return Collected::Gone,
            None => return Collected::Odd(held.all()),
        }
    }
}

/// Waits until the caller of a call that is answered has said all. Who is cut off in the middle has the rest on its way
/// already, and so many such frames in the life of a connection are taken for an attack: it would end.
pub async fn see_out(body: &mut RecvStream) {
    let rest = async {
        while let Some(Ok(part)) = body.data().await {
            let _ = body.flow_control().release_capacity(part.len());
        }
        let _ = body.trailers().await;
    };
    let _ = timeout(PARTING, rest).await;
}

enum Judged {
    Whole,
    Odd,
    Partial,
}

fn judged(read: &[u8], most_bytes: usize) -> Judged {
    let Some((prefix, rest)) = read.split_first_chunk::<PREFIX_BYTES>() else {
        return Judged::Partial;
    };
    let [packed, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    if packed != 0 || length > most_bytes || rest.len() > length {
        Judged::Odd
    } else if rest.len() == length {
        Judged::Whole
    } else {
        Judged::Partial
    }
}

/// One frame, as most messages come in, is not copied.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Held {
    fn read(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::One(part) => part,
            Self::Many(parts) => parts,
        }
    }

    fn add(&mut self, part: Bytes) {
        *self = match std::mem::take(self) {
            Self::Nothing => Self::One(part),
            Self::One(first) => {
                let mut parts = BytesMut::from(&first[..]);
                parts.extend_from_slice(&part);
                Self::Many(parts)
            }
            Self::Many(mut parts) => {
                parts.extend_from_slice(&part);
                Self::Many(parts)
            }
        };
    }

    fn all(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(part) => part,
            Self::Many(parts) => parts.freeze(),
        }
    }

    fn message(self) -> Bytes {
        let mut all = self.all();
        all.advance(PREFIX_BYTES);
        all
    }
}

/// A message as the wire has it.
pub fn framed(message: &[u8]) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.extend_from_slice(&[0]);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Some(framed.freeze())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn said(parts: &[&[u8]], most_bytes: usize) -> &'static str {
        let mut held = Held::default();
        for part in parts {
            held.add(Bytes::copy_from_slice(part));
        }
        match judged(held.read(), most_bytes) {
            Judged::Whole => "whole",
            Judged::Odd => "odd",
            Judged::Partial => "partial",
        }
    }

    #[test]
    fn a_message_is_whole_however_it_was_cut() {
        assert_eq!(said(&[&[0, 0, 0, 0, 2, 7, 8]], 9), "whole");
        assert_eq!(said(&[&[0, 0], &[0, 0, 2, 7], &[8]], 9), "whole");
        assert_eq!(said(&[&[0, 0, 0, 0, 0]], 9), "whole");
    }

    #[test]
    fn part_of_one_is_waited_for() {
        assert_eq!(said(&[], 9), "partial");
        assert_eq!(said(&[&[0, 0, 0, 0]], 9), "partial");
        assert_eq!(said(&[&[0, 0, 0, 0, 2, 7]], 9), "partial");
    }

    #[test]
    fn all_else_is_judged_by_grpcio() {
        assert_eq!(said(&[&[1, 0, 0, 0, 2, 7]], 9), "odd");
        assert_eq!(said(&[&[0, 0, 0, 0, 10]], 9), "odd");
        assert_eq!(said(&[&[0, 0, 0, 0, 1, 7, 8]], 9), "odd");
        assert_eq!(said(&[&[0, 255, 255, 255, 255]], 9), "odd");
    }

    proptest! {
        #[test]
        fn whatever_way_it_is_cut_it_is_whole_with_its_last_byte(
            message in vec(any::<u8>(), 0..300),
            cuts in vec(any::<Index>(), 0..8),
        ) {
            let all = framed(&message).unwrap();
            let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
            ends.push(all.len());
            ends.sort_unstable();
            let (mut held, mut begin) = (Held::default(), 0);
            for end in ends {
                held.add(all.slice(begin..end));
                prop_assert_eq!(matches!(judged(held.read(), 300), Judged::Whole), end == all.len());
                prop_assert!(!matches!(judged(held.read(), 300), Judged::Odd));
                begin = end;
            }
            prop_assert_eq!(held.message(), message);
        }

        #[test]
        fn bytes_of_a_stranger_are_kept_as_they_came(parts in vec(vec(any::<u8>(), 0..12), 0..6), most in 0..40_usize) {
            let mut held = Held::default();
            for part in &parts {
                held.add(Bytes::copy_from_slice(part));
                if let Judged::Whole = judged(held.read(), most) {
                    let length = u32::from_be_bytes(held.read()[1..PREFIX_BYTES].try_into().unwrap()) as usize;
                    prop_assert!(length <= most && held.read()[0] == 0 && held.read().len() == PREFIX_BYTES + length);
                }
            }
            prop_assert_eq!(held.all(), parts.concat());
        }
    }

    #[test]
    fn what_is_framed_is_read_again() {
        let mut held = Held::default();
        held.add(framed(b"hello").unwrap());
        assert_eq!(&held.message()[..], b"hello");
    }
}
