//! Notices a damaged index. The cells of each page are checked when the page is read, and in the background the whole index, so that
//! no search waits for that.

use std::time::Duration;

use rusqlite::Connection;

use super::DocumentLibrary;
use super::store::{IndexError, open_to_read};

/// The time of one check of the whole index.
const CHECK_TIME_MAX: Duration = Duration::from_secs(60);

impl DocumentLibrary {
    /// Checks the whole index, and deletes it if it is damaged, so that documents are read again. Searches run meanwhile.
    ///
    /// Cancel safe: the check runs to its end, without effect.
    pub async fn check_integrity(&self) {
        let folder = self.folder.clone();
        // A separate connection, so that the check blocks nobody.
        let opened = tokio::task::spawn_blocking(move || open_to_read(&folder)).await;
        let Ok(Ok(connection)) = opened else { return };
        let interrupt = connection.get_interrupt_handle();
        let mut checking = tokio::task::spawn_blocking(move || is_sound(&connection));
        match tokio::time::timeout(CHECK_TIME_MAX, &mut checking).await {
            Ok(Ok(false)) => {
                // The call that reports damage deletes the index.
                let _ = self.with_index(|_| Err::<(), _>(IndexError::Damaged)).await;
                self.touch_files([]);
            }
            Ok(_) => {}
            Err(_) => interrupt.interrupt(),
        }
    }
}

fn is_sound(connection: &Connection) -> bool {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(found) => found == "ok",
        Err(error) => !IndexError::from(error).is_damage(),
    }
}
