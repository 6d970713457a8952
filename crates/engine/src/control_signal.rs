//! Signals to a running turn: stop the answer, or leave it to another node.
//!
//! Signals are flags, not a queue: none is lost, and none waits behind other inputs.

use domain::turn::host::Event;
use tokio::sync::watch;

/// A signal to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlSignal {
    /// The user stops the answer.
    Stop,
    /// Another node holds the lease.
    Leave,
}

/// All signals that a turn has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ControlSignals {
    stop: bool,
    leave: bool,
}

/// Sends the signal. A repeated signal wakes nobody.
pub(super) fn give(signals: &watch::Sender<ControlSignals>, order: ControlSignal) {
    signals.send_if_modified(|signals| {
        let flag = match order {
            ControlSignal::Stop => &mut signals.stop,
            ControlSignal::Leave => &mut signals.leave,
        };
        !std::mem::replace(flag, true)
    });
}

/// Waits for a signal and leaves it to [`next`]. Cancel safe.
pub(super) async fn given(signals: &watch::Receiver<ControlSignals>) {
    // A closed channel is reported by `next`.
    let _ = signals.clone().changed().await;
}

/// Returns the strongest signal, once there is a new one. Cancel safe.
pub(super) async fn next(given: &mut watch::Receiver<ControlSignals>) -> Event {
    if given.changed().await.is_err() {
        return Event::Fenced; // its seat is another's
    }
    match *given.borrow_and_update() {
        ControlSignals { leave: true, .. } => Event::Fenced,
        ControlSignals { .. } => Event::StopRequested,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn an_order_is_heard_once_and_the_strongest_first() {
        let (signals, mut given) = watch::channel(ControlSignals::default());
        assert!(next(&mut given).now_or_never().is_none());
        give(&signals, ControlSignal::Stop);
        give(&signals, ControlSignal::Stop);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::StopRequested));
        give(&signals, ControlSignal::Stop);
        assert!(next(&mut given).now_or_never().is_none(), "it is known");
        give(&signals, ControlSignal::Leave);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::Fenced));
        drop(signals);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::Fenced));
    }
}
