//! What others want of a turn: a stop, or that it leaves.
//!
//! ControlSignals are flags and no queue: none is lost or waits behind anything else, however much the agent says.

use domain::turn::host::Event;
use tokio::sync::watch;

/// What a turn is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlSignal {
    /// The user wants the answer stopped.
    Stop,
    /// Another holds the lease.
    Leave,
}

/// All that a turn was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ControlSignals {
    stop: bool,
    leave: bool,
}

/// Gives the order. What was given before wakes nobody again.
pub(super) fn give(signals: &watch::Sender<ControlSignals>, order: ControlSignal) {
    signals.send_if_modified(|signals| {
        let flag = match order {
            ControlSignal::Stop => &mut signals.stop,
            ControlSignal::Leave => &mut signals.leave,
        };
        !std::mem::replace(flag, true)
    });
}

/// Waits for an order and leaves it to be heard by [`next`]. Cancel safe.
pub(super) async fn given(signals: &watch::Receiver<ControlSignals>) {
    // One whose seat is another's is told so by `next`.
    let _ = signals.clone().changed().await;
}

/// The strongest of the signals, once there is a new one. Cancel safe.
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
