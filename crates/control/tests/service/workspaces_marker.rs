//! Tests that a service works only on the folder of workspaces that belongs to its database.

use std::fs;

use control::CheckStatus;
use domain::id::NodeId;

use super::*;

const MARKER: &str = ".causerie-database";

/// Ends the service of a new stage and returns what starts another one on its data folder.
async fn stop_service() -> (TempDir, impl AsyncFn() -> Result<CauserieService, String>) {
    let ServiceStage { data, driver, clock, counter, service, .. } = start_stage().await;
    service.shutdown().await;
    drop(service);
    let environment = ServiceEnvironment::new(clock, counter);
    let path = data.path().to_owned();
    let start = async move || {
        let config = ServiceConfig { data: path.clone(), ..config_at(&path, &driver) };
        CauserieService::start(config, environment.clone()).await.map_err(|error| error.to_string())
    };
    (data, start)
}

fn config_at(data: &std::path::Path, driver: &Simulated) -> ServiceConfig {
    let folder = tempfile::tempdir().expect("a temporary folder");
    ServiceConfig { data: data.to_owned(), ..service_config(&folder, driver, DispatchLimits::default()) }
}

async fn start_and_end(start: &impl AsyncFn() -> Result<CauserieService, String>) {
    start().await.expect("a service").shutdown().await;
}

#[tokio::test]
async fn unmounted_folder_is_refused() {
    let (data, start) = stop_service().await;
    let (folder, away) = (data.path().join("workspaces"), data.path().join("away"));
    fs::rename(&folder, &away).expect("it is there");
    for _ in 0..2 {
        let refused = start().await.err().expect("it is refused");
        assert!(refused.contains("not mounted") && refused.contains(MARKER), "{refused}");
    }
    let made = fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(made, 0, "nothing is made below the mount point");
    fs::remove_dir(&folder).expect("it is empty");
    fs::rename(&away, &folder).expect("it is there");
    start_and_end(&start).await;
}

#[tokio::test]
async fn foreign_folder_refused_until_adopted() {
    let (data, start) = stop_service().await;
    let marker = data.path().join("workspaces").join(MARKER);
    let own = fs::read_to_string(&marker).expect("a marker");
    for foreign in [format!("{}\n", NodeId::from_random(7)), "?".to_owned(), String::new()] {
        fs::write(&marker, &foreign).expect("it is written");
        let refused = start().await.err().expect("it is refused");
        assert!(refused.contains("another database") && refused.contains("adopt"), "{refused}");
        assert_eq!(fs::read_to_string(&marker).expect("a marker"), foreign, "it is left as it is");
    }
    fs::write(&marker, "adopt\n").expect("it is written");
    start_and_end(&start).await;
    assert_eq!(fs::read_to_string(&marker).expect("a marker"), own);
}

#[tokio::test]
async fn earlier_data_folder_gets_marker() {
    let (data, start) = stop_service().await;
    let (folder, away) = (data.path().join("workspaces"), data.path().join("away"));
    let forget = async || {
        let store = Store::open(&data.path().join("causerie.db")).expect("the database");
        let forget = "UPDATE serving SET database_id = NULL";
        store.write(move |tx| tx.execute(forget, &[])).await.expect("a write");
        store.close().await;
        fs::remove_file(folder.join(MARKER)).expect("it is there");
    };
    forget().await;
    start_and_end(&start).await;
    assert!(folder.join(MARKER).is_file());
    start_and_end(&start).await;
    // Not even an earlier version had accounts without any workspace.
    forget().await;
    fs::rename(&folder, &away).expect("it is there");
    let refused = start().await.err().expect("it is refused");
    assert!(refused.contains("not mounted"), "{refused}");
}

#[tokio::test]
async fn interrupted_marker_write_is_finished() {
    let (data, start) = stop_service().await;
    let marker = data.path().join("workspaces").join(MARKER);
    fs::rename(&marker, marker.with_extension("new")).expect("it is there");
    start_and_end(&start).await;
    assert!(marker.is_file());
}

#[tokio::test]
async fn missing_marker_refuses_files_and_questions() {
    let ServiceStage { data, service, principal, .. } = start_stage().await;
    let marker = data.path().join("workspaces").join(MARKER);
    let away = data.path().join("away");
    let becomes = async |status| {
        poll_until(async || {
            let checks = service.run_checks().await;
            let check = checks.into_iter().find(|check| check.name == "workspaces").expect("a check");
            (check.status == status).then_some(())
        })
        .await;
    };
    fs::rename(&marker, &away).expect("it is there");
    becomes(CheckStatus::Fail).await;
    let refused = Some((ErrorKind::Unavailable, PublicCode::Unavailable));
    assert_eq!(error_code(service.files.workspace_of(&principal)), refused);
    assert_eq!(error_code(service.questions.ask_question(&principal, ask_request()).await), refused);
    fs::rename(&away, &marker).expect("it is there");
    becomes(CheckStatus::Pass).await;
    service.files.workspace_of(&principal).expect("it is there again");
    service.shutdown().await;
}
