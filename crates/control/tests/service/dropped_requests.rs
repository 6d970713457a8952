//! Tests that requests whose callers have disconnected are completed, or leave no trace.

use super::*;

/// The caller is dropped while its question is being stored.
#[tokio::test]
async fn dropped_question_is_still_answered() {
    let ServiceStage { driver, service, principal, data: _data, .. } = start_stage().await;
    driver.hold_starts();
    let mut asking = Box::pin(service.questions.ask_question(&principal, ask_request()));
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    poll_until(async || {
        let page = service.conversations.list_conversations(&principal, 0, 1).await.expect("a list");
        (page.total == 1).then_some(())
    })
    .await;
    poll_until(async || {
        let status = service.vm.machine_status(&principal).await.expect("a machine");
        (status == MachineStatus::Starting).then_some(())
    })
    .await;
    service.shutdown().await;
}

/// A browser that sends its form again drops the first request.
#[tokio::test]
async fn dropped_invitation_request_stays_usable() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let driver = Simulated::new(|_| std::future::pending());
    let environment =
        ServiceEnvironment::new(Arc::new(ServiceClock::default()), Arc::new(CountingEntropy::default()));
    let config = service_config(&data, &driver, DispatchLimits::default());
    let service = CauserieService::start(config, environment).await.expect("a service");
    let owner = &service.first_owner;
    let invitation = owner.issue_invitation().await.expect("a read").expect("there is no account");
    let create = || owner.create_owner(invitation.reveal(), EMAIL, "correct horse battery");
    let mut creating = Box::pin(create());
    assert!(futures_util::poll!(&mut creating).is_pending());
    let invited = owner.is_invited(invitation.reveal()).await.expect("a read");
    assert!(!invited, "it is used by one request at a time");
    drop(creating);
    create().await.expect("it is valid");
    assert!(!owner.is_invited(invitation.reveal()).await.expect("a read"));
    service.shutdown().await;
}

/// The caller is dropped while the revocation waits for the database.
#[tokio::test]
async fn dropped_revocation_still_revokes_key() {
    let ServiceStage { data, service, .. } = start_stage().await;
    let key = service.admin.create_key(EMAIL, "tool", KeyRestrictions::default()).await.expect("a key");
    let secret = key.key.reveal().to_owned();
    service.access.resolve_key(&secret).await.expect("it is valid");
    let (held, release) = std::sync::mpsc::channel::<()>();
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let holding = tokio::spawn(async move {
        store
            .write(move |tx| {
                tx.execute("UPDATE keys SET name = name", &[])?;
                begun.send(()).expect("the test waits");
                let _released = release.recv();
                Ok::<_, StoreError>(())
            })
            .await
    });
    has_begun.recv().await.expect("it holds the database");
    let mut revoking = Box::pin(service.admin.revoke_key(key.id));
    assert!(futures_util::poll!(&mut revoking).is_pending());
    drop(revoking);
    drop(held);
    holding.await.expect("no panic").expect("a write");
    poll_until(async || service.access.resolve_cached(&secret).is_none().then_some(())).await;
    assert!(service.access.resolve_key(&secret).await.is_err());
    service.shutdown().await;
}
