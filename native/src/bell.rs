//! Wakes the event loop of Python: a descriptor that is readable from `ring` to `hush`.
//!
//! Many rings are one wake-up. It is an eventfd where the system has one, and a pair of sockets elsewhere.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub struct Bell {
    heard: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    rung: std::os::unix::net::UnixStream,
}

#[cfg(target_os = "linux")]
impl Bell {
    pub fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let heard = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { heard })
    }

    /// A bell that rings already, and rang four thousand million times, need not be rung again.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.heard, &1_u64.to_ne_bytes());
    }

    pub fn hush(&self) {
        let _ = rustix::io::read(&self.heard, &mut [0_u8; 8]);
    }
}

#[cfg(not(target_os = "linux"))]
impl Bell {
    pub fn new() -> io::Result<Self> {
        let (heard, rung) = std::os::unix::net::UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        Ok(Self { heard: heard.into(), rung })
    }

    /// A bell whose socket is full rings already.
    pub fn ring(&self) {
        use std::io::Write;
        let _ = (&self.rung).write(&[1]);
    }

    pub fn hush(&self) {
        while matches!(rustix::io::read(&self.heard, &mut [0_u8; 512]), Ok(512)) {}
    }
}

impl Bell {
    pub fn descriptor(&self) -> RawFd {
        self.heard.as_raw_fd()
    }
}
