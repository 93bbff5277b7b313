//! What passes between the thread of the door and that of Python, in batches both ways.
//!
//! A call that has come waits in `arrived` until Python takes all that is there; the bell rings for the first of them
//! only. Answers wait in `ready` until the door's thread hands them to their calls, which is woken once for all of
//! them. A handshake of TLS knocks, and waits until Python has looked. Nobody holds a lock while they do anything else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{Notify, oneshot, watch};

use crate::bell::Bell;
use crate::connection::Shown;

pub struct Call {
    pub number: u64,
    pub method: usize,
    pub message: Bytes,
    pub metadata: Vec<u8>,
    pub shown: Arc<Shown>,
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
    /// The last one, and whether Python has not heard of it.
    knock: u64,
    is_knocking: bool,
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.gone.is_empty() && !self.is_knocking
    }
}

/// All that has come.
pub struct Taken {
    pub calls: Vec<Call>,
    pub gone: Vec<u64>,
    /// Handshakes up to this one wait for `greet`; 0: none.
    pub knock: u64,
}

type Waiting = oneshot::Sender<Answer>;

pub struct Exchange {
    pub bell: Bell,
    pub figures: Figures,
    arrived: Mutex<Arrived>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    ready: Mutex<Vec<(Waiting, Answer)>>,
    woken: Notify,
    greeted: watch::Sender<u64>,
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
            greeted: watch::channel(0).0,
            last: AtomicU64::new(0),
        })
    }

    /// The answer comes by the receiver. Whoever drops the guard before it came does not want it any more.
    pub fn ask(self: &Arc<Self>, method: usize, message: Bytes, metadata: Vec<u8>, shown: Arc<Shown>) -> Asked {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        locked(&self.waiting).insert(number, sender);
        self.figures.calls.fetch_add(1, Ordering::Relaxed);
        self.arrive(|arrived| arrived.calls.push(Call { number, method, message, metadata, shown }));
        Asked { number, answer, exchange: Arc::clone(self) }
    }

    fn arrive<T>(&self, put: impl FnOnce(&mut Arrived) -> T) -> T {
        let mut arrived = locked(&self.arrived);
        let is_first = arrived.is_empty();
        let found = put(&mut arrived);
        drop(arrived);
        if is_first {
            self.bell.ring();
        }
        found
    }

    /// Returns when Python has looked for other files of TLS, after this was called.
    pub async fn knock(&self) {
        let mut greeted = self.greeted.subscribe();
        let mine = self.arrive(|arrived| {
            arrived.knock += 1;
            arrived.is_knocking = true;
            arrived.knock
        });
        // Its sender lives as long as `self`.
        let _ = greeted.wait_for(|through| *through >= mine).await;
    }

    pub fn greet(&self, through: u64) {
        self.greeted.send_replace(through);
    }

    /// At most `most` calls, the first ones first, and all else.
    pub fn take(&self, most: usize) -> Taken {
        self.bell.hush();
        let mut arrived = locked(&self.arrived);
        let gone = std::mem::take(&mut arrived.gone);
        let knock = if std::mem::take(&mut arrived.is_knocking) { arrived.knock } else { 0 };
        let count = most.min(arrived.calls.len());
        let rest = arrived.calls.split_off(count);
        let calls = std::mem::replace(&mut arrived.calls, rest);
        if !arrived.calls.is_empty() {
            self.bell.ring();
        }
        Taken { calls, gone, knock }
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
        self.arrive(|arrived| arrived.gone.push(number));
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
        exchange.ask(
            0,
            Bytes::from_static(text.as_bytes()),
            Vec::new(),
            Arc::new(Shown { peer: "peer".into(), names: None }),
        )
    }

    #[test]
    fn what_has_come_is_one_batch_in_its_order() {
        let exchange = Arc::new(Exchange::new().unwrap());
        let _asked: Vec<_> = ["a", "b", "c"].map(|text| asked(&exchange, text)).into();
        let calls = exchange.take(2).calls;
        assert_eq!(calls.iter().map(|call| &call.message[..]).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(exchange.take(2).calls[0].number, 3);
        assert!(exchange.take(2).calls.is_empty());
    }

    #[test]
    fn who_went_is_told_of_once_and_its_answer_is_lost() {
        let exchange = Arc::new(Exchange::new().unwrap());
        drop(asked(&exchange, "a"));
        let Taken { calls, gone, .. } = exchange.take(9);
        assert_eq!((calls.len(), gone), (1, vec![1]));
        assert_eq!(exchange.answer(vec![(1, Answer::Reply(Bytes::new()))]), [1]);
        assert!(exchange.take(9).gone.is_empty());
    }

    #[test]
    fn who_was_answered_is_not_gone() {
        let exchange = Arc::new(Exchange::new().unwrap());
        let first = asked(&exchange, "a");
        assert!(exchange.answer(vec![(1, Answer::Reply(Bytes::new()))]).is_empty());
        drop(first);
        assert!(exchange.take(9).gone.is_empty());
        assert_eq!(exchange.in_hand(), 0);
    }

    #[test]
    fn a_handshake_waits_for_a_look_that_began_after_it() {
        let exchange = Exchange::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut first, mut second) = (Box::pin(exchange.knock()), Box::pin(exchange.knock()));
            assert!(polled(&mut first).await.is_pending());
            let looked = exchange.take(9).knock;
            assert!(polled(&mut second).await.is_pending());
            exchange.greet(looked);
            assert!(polled(&mut first).await.is_ready());
            assert!(polled(&mut second).await.is_pending());
            exchange.greet(exchange.take(9).knock);
            assert!(polled(&mut second).await.is_ready());
            assert_eq!(exchange.take(9).knock, 0);
        });
    }

    async fn polled<F: Future + Unpin>(work: &mut F) -> std::task::Poll<F::Output> {
        std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *work).poll(cx))).await
    }
}
