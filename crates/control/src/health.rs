//! Readiness of the service: named checks, each with a status and a reason.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::Dispatch;
use models::{Catalog, VendorHealth};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::Store;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::disk_reserve::{DiskReserve, FreeSpace};
use crate::workspaces_marker::WorkspacesMarker;

/// The timeout of the database check.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which the outcome of a write check is reused, after a success and after a failure, so that frequent
/// polls do not write as often.
const WRITE_CHECK_TTL: Duration = Duration::from_secs(5);
const FAILED_CHECK_TTL: Duration = Duration::from_secs(1);
/// The maximum number of reasons that one check names.
const REASONS_MAX: usize = 8;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Pass,
    /// The service works with restrictions.
    Warn,
    /// The service is not ready.
    Fail,
}

/// A check and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The name, in lower case with underscores.
    pub name: String,
    pub status: CheckStatus,
    /// The reason, for people.
    pub reason: String,
    #[serde(flatten)]
    pub values: Map<String, Value>,
}

impl Check {
    /// Creates a check without measurements.
    pub fn new(name: impl Into<String>, status: CheckStatus, reason: impl Into<String>) -> Self {
        Self { name: name.into(), status, reason: reason.into(), values: Map::new() }
    }

    fn with_value(mut self, name: &str, value: u64) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }
}

/// Runs the checks of a service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HealthChecks {
    store: Store,
    disk: DiskReserve,
    marker: WorkspacesMarker,
    catalog: Arc<Catalog>,
    dispatch: Dispatch,
    /// The checks of the host and the driver, which do not change once the driver is chosen.
    host: Arc<OnceLock<Vec<Check>>>,
    written: Arc<Mutex<Option<(Instant, Check)>>>,
}

impl HealthChecks {
    pub(crate) fn new(
        store: &Store,
        (disk, marker): (DiskReserve, WorkspacesMarker),
        catalog: Arc<Catalog>,
        dispatch: &Dispatch,
        host: Option<Vec<Check>>,
    ) -> Self {
        let (store, dispatch) = (store.clone(), dispatch.clone());
        let checks =
            Self { store, disk, marker, catalog, dispatch, host: Arc::default(), written: Arc::default() };
        if let Some(host) = host {
            checks.set_host_checks(host);
        }
        checks
    }

    /// Sets the checks of the host, without which the service is not ready. Only the first ones count.
    pub(crate) fn set_host_checks(&self, host: Vec<Check>) {
        for check in host.iter().filter(|check| check.status != CheckStatus::Pass) {
            tracing::warn!(check = check.name, reason = check.reason, "host check did not pass");
        }
        if self.host.set(host).is_err() {
            tracing::error!("host checks ran twice: keeping the first results");
        }
    }

    /// Runs all checks. The service is ready if none failed.
    pub(crate) async fn run_checks(&self) -> Vec<Check> {
        let readable = self.store_readable().await;
        let writable = if readable.status == CheckStatus::Fail {
            Check::new("store_writable", CheckStatus::Fail, "the database does not answer")
        } else {
            self.store_writable().await
        };
        let mut checks = vec![readable, writable];
        checks.push(match self.marker.check_marker() {
            Ok(()) => Check::new("workspaces", CheckStatus::Pass, "the workspaces folder has its marker"),
            Err(error) => Check::new("workspaces", CheckStatus::Fail, error.to_string()),
        });
        checks.extend(self.disk_checks());
        checks.push(self.left_answers());
        checks.extend(self.catalog.vendors_health().iter().map(vendor_check));
        checks.extend(self.host.get().cloned().unwrap_or_else(|| {
            vec![Check::new(
                "machine_driver",
                CheckStatus::Fail,
                "starting: machine drivers are being tested",
            )]
        }));
        checks
    }

    /// Reports answers that this process leaves. They do not keep it from being ready for others.
    fn left_answers(&self) -> Check {
        let left = self.dispatch.left_answers();
        if left.is_empty() {
            return Check::new("answers", CheckStatus::Pass, "every accepted answer can be continued");
        }
        let count: usize = left.values().sum();
        let reasons: Vec<String> =
            left.iter().take(REASONS_MAX).map(|(why, count)| format!("{count}: {why}")).collect();
        let reason = format!("some answers cannot be continued, {}", reasons.join("; "));
        Check::new("answers", CheckStatus::Warn, reason).with_value("left", count as u64)
    }

    async fn store_readable(&self) -> Check {
        if self.store.is_ready(READY_TIMEOUT).await {
            Check::new("store_readable", CheckStatus::Pass, "the database answers")
        } else {
            Check::new("store_readable", CheckStatus::Fail, "the database does not answer")
        }
    }

    async fn store_writable(&self) -> Check {
        let mut written = self.written.lock().await;
        if let Some((at, check)) = written.as_ref()
            && at.elapsed()
                < if check.status == CheckStatus::Pass { WRITE_CHECK_TTL } else { FAILED_CHECK_TTL }
        {
            return check.clone();
        }
        let check = match self.store.check_writable(READY_TIMEOUT).await {
            Ok(()) => Check::new("store_writable", CheckStatus::Pass, "the database takes writes"),
            Err(error) => Check::new("store_writable", CheckStatus::Fail, error.to_string()),
        };
        *written = Some((Instant::now(), check.clone()));
        check
    }

    fn disk_checks(&self) -> Vec<Check> {
        let Ok(FreeSpace { bytes, inodes }) = self.disk.free_space() else {
            let reason = "the file system of the data folder does not answer";
            return vec![Check::new("disk_bytes", CheckStatus::Fail, reason)];
        };
        let of = |name: &str, free: u64, floor: u64| {
            let (status, reason) = if free < floor {
                (CheckStatus::Fail, "free space is below the floor: new questions are refused")
            } else {
                (CheckStatus::Pass, "free space is above the floor")
            };
            Check::new(name, status, reason).with_value("free", free).with_value("floor", floor)
        };
        let config = self.disk.config();
        let mut checks = vec![of("disk_bytes", bytes, config.free_min_bytes)];
        checks.push(match inodes {
            Some(free) => of("disk_inodes", free, self.disk.inodes_free_min()),
            None => Check::new("disk_inodes", CheckStatus::Pass, "the file system does not limit inodes"),
        });
        let (status, reason) = match self.disk.is_reserve_whole() {
            true => (CheckStatus::Pass, "fully allocated"),
            false => (CheckStatus::Warn, "partly released until free space exceeds floor and reserve"),
        };
        checks.push(Check::new("disk_reserve", status, reason).with_value("bytes", config.reserve_bytes));
        checks
    }
}

/// Reports a vendor of models. One that is down does not keep the service from being ready.
fn vendor_check(vendor: &VendorHealth) -> Check {
    let name = format!("vendor_{}", vendor.provider.as_str().to_ascii_lowercase());
    match vendor.failure_reason() {
        Some(reason) => Check::new(name, CheckStatus::Warn, reason),
        None => Check::new(name, CheckStatus::Pass, format!("{} lists its models", vendor.base_url)),
    }
}
