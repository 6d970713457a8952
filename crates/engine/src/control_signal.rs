//! Signals to a running turn: stop the answer, or leave it to another node.
//!
//! Signals are flags, not a queue: none is lost, and none waits behind other inputs.

use domain::turn::host::TurnEvent;
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

/// Sends the signal. A repeated signal has no effect.
pub(super) fn send_signal(signals: &watch::Sender<ControlSignals>, order: ControlSignal) {
    signals.send_if_modified(|signals| {
        let flag = match order {
            ControlSignal::Stop => &mut signals.stop,
            ControlSignal::Leave => &mut signals.leave,
        };
        !std::mem::replace(flag, true)
    });
}

/// Waits for a signal and leaves it to [`next_signal`]. Cancel safe.
pub(super) async fn wait_for_signal(signals: &watch::Receiver<ControlSignals>) {
    // A closed channel is reported by `next`.
    let _ = signals.clone().changed().await;
}

/// Returns the strongest signal, once there is a new one. Cancel safe.
pub(super) async fn next_signal(given: &mut watch::Receiver<ControlSignals>) -> TurnEvent {
    if given.changed().await.is_err() {
        return TurnEvent::Fenced; // its seat is another's
    }
    match *given.borrow_and_update() {
        ControlSignals { leave: true, .. } => TurnEvent::Fenced,
        ControlSignals { .. } => TurnEvent::StopRequested,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn strongest_signal_received_once() {
        let (signals, mut given) = watch::channel(ControlSignals::default());
        assert!(next_signal(&mut given).now_or_never().is_none());
        send_signal(&signals, ControlSignal::Stop);
        send_signal(&signals, ControlSignal::Stop);
        assert_eq!(next_signal(&mut given).now_or_never(), Some(TurnEvent::StopRequested));
        send_signal(&signals, ControlSignal::Stop);
        assert!(next_signal(&mut given).now_or_never().is_none(), "it is known");
        send_signal(&signals, ControlSignal::Leave);
        assert_eq!(next_signal(&mut given).now_or_never(), Some(TurnEvent::Fenced));
        drop(signals);
        assert_eq!(next_signal(&mut given).now_or_never(), Some(TurnEvent::Fenced));
    }
}
