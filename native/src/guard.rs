//! A mistake of this crate ends the process, as `kill -9` would. timerd survives that; a wrong answer it does not.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::abort;
use std::task::{Context, Poll};

/// The border of a thread: nothing unwinds past it.
pub fn surely<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| end(&*panic))
}

/// The border of a task: its runtime would take a panic for the end of this one call.
pub struct Surely<F>(Pin<Box<F>>);

impl<F: Future> Surely<F> {
    pub fn new(work: F) -> Self {
        Self(Box::pin(work))
    }
}

impl<F: Future> Future for Surely<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        surely(|| self.0.as_mut().poll(cx))
    }
}

fn end(panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<&str>().copied();
    let said = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    eprintln!(
        "timerd's native front door met a mistake of its own ({}). The process ends, so that nobody gets a wrong \
         answer. Set front_door to grpcio to go on without it, and report this.",
        said.unwrap_or("it has no words")
    );
    abort()
}
