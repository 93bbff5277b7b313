//! Notices a peer that vanished: it is pinged from time to time, and has so long to answer.

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

use crate::settings::Settings;

/// Returns when the peer is gone.
pub async fn watch(pings: Option<PingPong>, settings: &Settings) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        sleep(settings.ping_every).await;
        if !matches!(timeout(settings.ping_timeout, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}
