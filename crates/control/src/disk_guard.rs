//! Stops machines that fill the disk of the service.
//!
//! The quota of an account's files is enforced by the kernel only on file systems with project quotas; elsewhere the
//! agent inside the machine watches it. A machine whose agent or kernel was taken over ignores that. So when the disk
//! has less free space than uploads must leave, the service counts the files of running machines itself.

use std::time::Duration;

use domain::id::AccountId;
use domain::machine::ChangeReason;
use machine::Machines;
use tokio_util::sync::CancellationToken;
use workspace::{Quota, WorkspaceError, Workspaces};

use crate::disk_reserve::DiskReserve;

/// The interval between checks of the free space, each one system call.
const INTERVAL: Duration = Duration::from_secs(2);

/// The disk, the files of accounts on it, and the machines that write them.
pub(crate) type Guarded = (DiskReserve, Workspaces, Machines);

/// Watches until the service ends.
pub(crate) async fn watch_periodically(guarded: Guarded, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(watch_every(INTERVAL, &guarded)).await;
}

async fn watch_every(interval: Duration, guarded @ (disk, workspaces, _): &Guarded) {
    loop {
        tokio::time::sleep(interval).await;
        let least = workspaces.quota().disk_free_min_bytes;
        let low = disk.free_space().is_ok_and(|free| free.bytes < least) || disk.is_low();
        if low {
            stop_the_greedy(guarded).await;
        }
    }
}

async fn stop_the_greedy((_, workspaces, machines): &Guarded) {
    for account in machines.active_accounts() {
        match quota_excess(workspaces, account).await {
            Ok(None) => {}
            Ok(Some(reason)) => match machines.stop_because(account, reason.clone()).await {
                Ok(()) => tracing::error!(%account, %reason, "machine stopped"),
                Err(error) => tracing::error!(%account, %error, %reason, "machine stop failed"),
            },
            Err(error) => tracing::warn!(%account, %error, "file count failed while the disk is nearly full"),
        }
    }
}

/// Returns by how much an account's files exceed its quota; `None` if they do not.
async fn quota_excess(
    workspaces: &Workspaces,
    account: AccountId,
) -> Result<Option<ChangeReason>, WorkspaceError> {
    let Quota { bytes_max, files_max, .. } = workspaces.quota();
    let used = workspaces.workspace_for(account).usage().await?;
    let exceeds = used.bytes > bytes_max || used.files > files_max;
    Ok(exceeds.then(|| {
        ChangeReason::QuotaExceeded(format!(
            "{} of {bytes_max} bytes, {} of {files_max} files",
            used.bytes, used.files
        ))
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::machine::{DesiredState, Rules};
    use futures_util::future::BoxFuture;
    use machine::simulated::Simulated;
    use machine::{Driver, MachineHome, MachineRecord, MachineRecords, RecordsError};

    use super::*;
    use crate::disk_reserve::DiskReserveConfig;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Every account has a machine that should run.
    struct AlwaysRunning;

    impl MachineRecords for AlwaysRunning {
        fn load_machine(
            &self,
            account: AccountId,
        ) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
            let home = MachineHome { account, ordinal: 0, workspace: "/".into() };
            Box::pin(async { Ok(Some(MachineRecord { home, desired: DesiredState::Running })) })
        }

        fn save_desired(&self, _: AccountId, _: DesiredState) -> BoxFuture<'_, Result<(), RecordsError>> {
            Box::pin(async { Ok(()) })
        }

        fn save_lapse(&self, _: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
            Box::pin(async { Ok(false) })
        }

        fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    #[tokio::test]
    async fn full_disk_stops_only_quota_exceeder() {
        let folder = tempfile::tempdir().expect("a folder");
        let (modest, greedy) = (AccountId::from_random(1), AccountId::from_random(2));
        let quota = Quota {
            bytes_max: 100_000,
            disk_free_min_bytes: u64::MAX / 2,
            recount_after: Duration::ZERO,
            ..Quota::default()
        };
        let workspaces = Workspaces::new(folder.path().join("workspaces"), quota).expect("a folder");
        let machines = Machines::new(
            Driver::Simulated(Simulated::new(|_| std::future::pending())),
            Arc::new(AlwaysRunning),
            Rules::default(),
        );
        for (account, bytes) in [(modest, 1_000), (greedy, 200_000)] {
            let workspace = workspaces.provision(account, None).await.expect("a folder");
            std::fs::write(workspace.host_dir().join("file"), vec![1; bytes]).expect("a file");
            machines.start_machine(account).await.expect("a machine");
        }
        let disk = DiskReserve::new(folder.path(), DiskReserveConfig::default());
        let guarded = (disk, workspaces, machines.clone());
        let stopped = async {
            while machines.active_accounts() != [modest] {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = watch_every(Duration::from_millis(1), &guarded) => {}
            done = tokio::time::timeout(TIMEOUT, stopped) => done.expect("it is stopped"),
        }
        let reason = machines.machine_view(greedy).await.expect("a state").reason.expect("a reason");
        assert!(matches!(reason, ChangeReason::QuotaExceeded(_)), "{reason}");
    }
}
