//! What others want of a turn: a stop, or that it leaves.
//!
//! Orders are flags and no queue: none is lost or waits behind anything else, however much the agent says.

use domain::turn::host::Event;
use tokio::sync::watch;

/// What a turn is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The user wants the answer stopped.
    Stop,
    /// Another holds the lease.
    Leave,
}

/// All that a turn was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Orders {
    stop: bool,
    leave: bool,
}

/// Gives the order. What was given before wakes nobody again.
pub(super) fn give(orders: &watch::Sender<Orders>, order: Order) {
    orders.send_if_modified(|orders| {
        let flag = match order {
            Order::Stop => &mut orders.stop,
            Order::Leave => &mut orders.leave,
        };
        !std::mem::replace(flag, true)
    });
}

/// Waits for an order and leaves it to be heard by [`next`]. Cancel safe.
pub(super) async fn given(orders: &watch::Receiver<Orders>) {
    // One whose seat is another's is told so by `next`.
    let _ = orders.clone().changed().await;
}

/// The strongest of the orders, once there is a new one. Cancel safe.
pub(super) async fn next(given: &mut watch::Receiver<Orders>) -> Event {
    if given.changed().await.is_err() {
        return Event::Fenced; // its seat is another's
    }
    match *given.borrow_and_update() {
        Orders { leave: true, .. } => Event::Fenced,
        Orders { .. } => Event::StopRequested,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn an_order_is_heard_once_and_the_strongest_first() {
        let (orders, mut given) = watch::channel(Orders::default());
        assert!(next(&mut given).now_or_never().is_none());
        give(&orders, Order::Stop);
        give(&orders, Order::Stop);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::StopRequested));
        give(&orders, Order::Stop);
        assert!(next(&mut given).now_or_never().is_none(), "it is known");
        give(&orders, Order::Leave);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::Fenced));
        drop(orders);
        assert_eq!(next(&mut given).now_or_never(), Some(Event::Fenced));
    }
}
