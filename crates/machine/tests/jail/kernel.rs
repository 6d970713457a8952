//! Tests a kernel that its machine has taken over: an arbitrary program in place of User Mode Linux.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use machine::{GuestConnection, OwnKernel, Sandbox};
use tokio::time::timeout;

use crate::site::{Kind, Site, config, program};

#[tokio::test]
async fn a_kernel_that_is_taken_over_is_confined() {
    let site = Site::new(Kind::Uml);
    let mut config = config(site.folder.path(), Kind::Uml);
    config.kernel = Some(OwnKernel::UserModeLinux(program()));
    let sandbox = Sandbox::open(config).unwrap();
    let machine = sandbox.start(&site.home()).await.unwrap();
    let report = std::fs::read_to_string(site.folder.path().join("workspace/report.txt")).unwrap();
    assert!(report.lines().count() > 50, "{report}");
    for line in report.lines() {
        assert!(line.contains(": refused"), "{line}");
    }
    for entry in std::fs::read_dir(site.folder.path().join("workspace")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o6000, 0, "{:?}", entry.file_name());
    }
    // It sends nothing that the service accepts as an agent, and can be stopped.
    let stream = Box::new(machine.connect().await.unwrap());
    let greeted = timeout(Duration::from_millis(200), GuestConnection::open(stream)).await;
    assert!(!matches!(greeted, Ok(Ok(_))), "a flood is no agent");
    sandbox.stop(site.home().account).await.unwrap();
    timeout(Duration::from_secs(5), machine.ended()).await.unwrap();
}
