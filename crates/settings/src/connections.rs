//! The limits of connections.

use std::time::Duration;

use server::ConnectionLimits;

use crate::form::{byte_size_form, count_form, duration_form};
use crate::source::SettingSources;

/// Reads the limits of connections.
pub(crate) fn read_connection_limits(from: &mut SettingSources) -> ConnectionLimits {
    let default = ConnectionLimits::default();
    let time = |most| duration_form(Duration::from_secs(1)..=Duration::from_secs(most));
    let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    ConnectionLimits {
        connections_max: whole(from.value_or_default(
            "limits.connections_max",
            default.connections_max as u64,
            count_form(1..=1_000_000),
        )),
        headers_max: whole(from.value_or_default(
            "limits.headers_max",
            default.headers_max as u64,
            count_form(10..=1000),
        )),
        header_bytes_max: whole(from.value_or_default(
            "limits.header_bytes_max",
            default.header_bytes_max as u64,
            byte_size_form(8 << 10..=1 << 20),
        )),
        header_timeout: from.value_or_default("limits.header_timeout", default.header_timeout, time(600)),
        body_timeout: from.value_or_default("limits.body_timeout", default.body_timeout, time(600)),
        idle_timeout: from.value_or_default("limits.idle_timeout", default.idle_timeout, time(3600)),
        stall_timeout: from.value_or_default("limits.stall_timeout", default.stall_timeout, time(3600)),
        connections_per_address: whole(from.value_or_default(
            "limits.connections_per_address",
            default.connections_per_address as u64,
            count_form(1..=1_000_000),
        )),
        unsent_max_bytes: u32::try_from(from.value_or_default(
            "limits.unsent_max_bytes",
            u64::from(default.unsent_max_bytes),
            byte_size_form(16 << 10..=64 << 20),
        ))
        .unwrap_or(default.unsent_max_bytes),
    }
}
