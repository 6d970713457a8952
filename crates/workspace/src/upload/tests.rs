use super::*;

#[test]
fn fresh_names_differ() {
    assert_ne!(generate_name().unwrap(), generate_name().unwrap());
    assert!(crate::path::is_staging(&staging_name().unwrap()));
}

#[tokio::test]
async fn interrupted_upload_files_expire() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = crate::Workspaces::new(root.path(), Quota::default()).unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3700);
    let mut homes = Vec::new();
    for number in 1..=2 {
        let account = domain::id::AccountId::from_random(number);
        let home = workspaces.provision(account, None).await.unwrap().host_dir();
        let staged = String::from_utf8(staging_name().unwrap()).unwrap();
        for name in [staged.as_str(), "a-file-of-the-user"] {
            File::create(home.join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        let fresh = String::from_utf8(staging_name().unwrap()).unwrap();
        File::create(home.join(&fresh)).unwrap();
        homes.push((home, staged, fresh));
    }
    std::fs::create_dir(root.path().join("no-account")).unwrap();
    assert_eq!(workspaces.remove_stale_uploads().await.unwrap(), 2);
    for (home, staged, fresh) in homes {
        assert!(!home.join(staged).exists());
        assert!(home.join(fresh).exists() && home.join("a-file-of-the-user").exists());
    }
    assert_eq!(workspaces.count_accounts().await.unwrap(), 2);
}

#[tokio::test]
async fn upload_works_without_nameless_files() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = crate::Workspaces::new(root.path(), Quota::default()).unwrap();
    let account = domain::id::AccountId::from_random(1);
    let workspace = workspaces.provision(account, None).await.unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(workspace.host_dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let staged = |content: &'static [u8]| {
        let file = StagedFile::create_named(&workspace, workspace.open_home().unwrap()).unwrap();
        file.write_batch(&[Bytes::from_static(content)], 0).unwrap();
        StagedUpload { file: Arc::new(file), room: ReservedSpace::new(workspace.books.clone()), size: 3 }
    };
    let dropped = staged(b"old");
    assert_eq!(names().len(), 2);
    assert_eq!(workspace.recount_usage(Duration::ZERO).await.unwrap().files, 1);
    drop(dropped);
    assert_eq!(names(), ["uploads"]);
    let home = || Destination::Folder(WorkspacePath::home().into());
    let name = FileName::from_upload("file").unwrap();
    for content in [b"old", b"new"] {
        staged(content).place_file(home(), name.clone(), SameName::Replace).await.unwrap();
        assert_eq!(std::fs::read(workspace.host_dir().join("file")).unwrap(), content);
    }
    assert!(
        staged(b"bad")
            .place_file(home(), FileName::from_upload("uploads").unwrap(), SameName::Replace)
            .await
            .is_err()
    );
    assert_eq!(names(), ["file", "uploads"]);
}
