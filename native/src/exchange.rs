//! What passes between the thread of the door and that of Python, in batches both ways.
//!
//! A call that has come waits in `arrived` until Python takes all that is there; the bell rings for the first of them
//! only. Answers wait in `ready` until the door's thread hands them to their calls, which is woken once for all of
//! them. Nobody holds a lock while they do anything else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{Notify, oneshot};

use crate::bell::Bell;

pub struct Call {
    pub number: u64,
    pub method: usize,
    pub message: Bytes,
    pub metadata: Vec<u8>,
    pub peer: Arc<str>,
}

pub enum Answer {
    /// Framed.
    Reply(Bytes),
    /// The trailers, with the status among them.
    Failure(HeaderMap),
}

#[derive(Default)]
struct Arrived {
    calls: Vec<Call>,
    /// Numbers of calls that nobody waits for any more.
    gone: Vec<u64>,
}

type Waiting = oneshot::Sender<Answer>;

pub struct Exchange {
    pub bell: Bell,
    pub figures: Figures,
    arrived: Mutex<Arrived>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    ready: Mutex<Vec<(Waiting, Answer)>>,
    woken: Notify,
    last: AtomicU64,
}

/// How many there were since the door was made.
#[derive(Default)]
pub struct Figures {
    pub connections: AtomicU64,
    pub calls: AtomicU64,
    pub relayed: AtomicU64,
    pub gone: AtomicU64,
}

impl Exchange {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            bell: Bell::new()?,
            figures: Figures::default(),
            arrived: Mutex::default(),
            waiting: Mutex::default(),
            ready: Mutex::default(),
            woken: Notify::new(),
            last: AtomicU64::new(0),
        })
    }

    /// The answer comes by the receiver. Whoever drops the guard before it came does not want it any more.
    pub fn ask(self: &Arc<Self>, method: usize, message: Bytes, metadata: Vec<u8>, peer: Arc<str>) -> Asked {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        locked(&self.waiting).insert(number, sender);
        let mut arrived = locked(&self.arrived);
        let is_first = arrived.calls.is_empty() && arrived.gone.is_empty();
        arrived.calls.push(Call { number, method, message, metadata, peer });
        drop(arrived);
        self.figures.calls.fetch_add(1, Ordering::Relaxed);
        if is_first {
            self.bell.ring();
        }
        Asked { number, answer, exchange: Arc::clone(self) }
    }

    /// At most `most` calls, the first ones first, and all that are gone.
    pub fn take(&self, most: usize) -> (Vec<Call>, Vec<u64>) {
        self.bell.hush();
        let mut arrived = locked(&self.arrived);
        let gone = std::mem::take(&mut arrived.gone);
        let count = most.min(arrived.calls.len());
        let rest = arrived.calls.split_off(count);
        let calls = std::mem::replace(&mut arrived.calls, rest);
        if !arrived.calls.is_empty() {
            self.bell.ring();
        }
        (calls, gone)
    }

    /// Returns the numbers of those that nobody waits for.
    pub fn answer(&self, answers: Vec<(u64, Answer)>) -> Vec<u64> {
        let mut lost = Vec::new();
        let mut met = Vec::with_capacity(answers.len());
        let mut waiting = locked(&self.waiting);
        for (number, answer) in answers {
            match waiting.remove(&number) {
                Some(sender) if !sender.is_closed() => met.push((sender, answer)),
                _ => lost.push(number),
            }
        }
        drop(waiting);
        if !met.is_empty() {
            locked(&self.ready).append(&mut met);
            self.woken.notify_one();
        }
        lost
    }

    /// Hands answers to their calls, for ever.
    pub async fn hand_out(&self) {
        loop {
            self.woken.notified().await;
            let ready = std::mem::take(&mut *locked(&self.ready));
            for (sender, answer) in ready {
                // Its call may have gone meanwhile.
                let _ = sender.send(answer);
            }
        }
    }

    /// Calls that Python has not answered yet.
    pub fn in_hand(&self) -> usize {
        locked(&self.waiting).len()
    }

    fn forget(&self, number: u64) {
        if locked(&self.waiting).remove(&number).is_none() {
            return;
        }
        self.figures.gone.fetch_add(1, Ordering::Relaxed);
        let mut arrived = locked(&self.arrived);
        let is_first = arrived.calls.is_empty() && arrived.gone.is_empty();
        arrived.gone.push(number);
        drop(arrived);
        if is_first {
            self.bell.ring();
        }
    }
}

pub struct Asked {
    number: u64,
    pub answer: oneshot::Receiver<Answer>,
    exchange: Arc<Exchange>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.exchange.forget(self.number);
    }
}

/// A thread that ended with a lock ended the process (`guard`), so none is poisoned.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(exchange: &Arc<Exchange>, text: &'static str) -> Asked {
        exchange.ask(0, Bytes::from_static(text.as_bytes()), Vec::new(), Arc::from("peer"))
    }

    #[test]
    fn what_has_come_is_one_batch_in_its_order() {
        let exchange = Arc::new(Exchange::new().unwrap());
        let _asked: Vec<_> = ["a", "b", "c"].map(|text| asked(&exchange, text)).into();
        let (calls, _) = exchange.take(2);
        assert_eq!(calls.iter().map(|call| &call.message[..]).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(exchange.take(2).0[0].number, 3);
        assert!(exchange.take(2).0.is_empty());
    }

    #[test]
    fn who_went_is_told_of_once_and_its_answer_is_lost() {
        let exchange = Arc::new(Exchange::new().unwrap());
        drop(asked(&exchange, "a"));
        let (calls, gone) = exchange.take(9);
        assert_eq!((calls.len(), gone), (1, vec![1]));
        assert_eq!(exchange.answer(vec![(1, Answer::Reply(Bytes::new()))]), [1]);
        assert!(exchange.take(9).1.is_empty());
    }

    #[test]
    fn who_was_answered_is_not_gone() {
        let exchange = Arc::new(Exchange::new().unwrap());
        let first = asked(&exchange, "a");
        assert!(exchange.answer(vec![(1, Answer::Reply(Bytes::new()))]).is_empty());
        drop(first);
        assert!(exchange.take(9).1.is_empty());
        assert_eq!(exchange.in_hand(), 0);
    }
}
