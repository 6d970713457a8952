//! Tests that requests whose callers have gone are carried through, or leave no trace.

use super::*;

/// The caller is dropped while its question is being stored.
#[tokio::test]
async fn a_question_whose_caller_has_gone_is_worked_on_all_the_same() {
    let Stage { driver, service, principal, data: _data, .. } = stage().await;
    driver.hold_starts();
    let mut asking = Box::pin(service.questions.ask(&principal, question()));
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    until(async || {
        let page = service.conversations.list(&principal, 0, 1).await.expect("a list");
        (page.total == 1).then_some(())
    })
    .await;
    until(async || {
        let status = service.vm.status(&principal).await.expect("a machine");
        (status == MachineStatus::Starting).then_some(())
    })
    .await;
    service.shutdown().await;
}

/// A browser that sends its form again drops the first request.
#[tokio::test]
async fn an_invitation_whose_request_is_dropped_can_be_used_again() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let driver = Simulated::new(|_| std::future::pending());
    let environment = Environment::new(Arc::new(Moved::default()), Arc::new(Counter::default()));
    let config = config(&data, &driver, DispatchLimits::default());
    let service = Service::start(config, environment).await.expect("a service");
    let owner = &service.first_owner;
    let invitation = owner.invite().await.expect("a read").expect("there is no account");
    let create = || owner.create(invitation.reveal(), EMAIL, "correct horse battery");
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
async fn a_key_whose_revocation_nobody_waits_for_counts_no_longer() {
    let Stage { data, service, .. } = stage().await;
    let key = service.admin.create_key(EMAIL, "tool", KeyRestrictions::default()).await.expect("a key");
    let secret = key.key.reveal().to_owned();
    service.access.resolve(&secret).await.expect("it is valid");
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
    until(async || service.access.resolve_cached(&secret).is_none().then_some(())).await;
    assert!(service.access.resolve(&secret).await.is_err());
    service.shutdown().await;
}
