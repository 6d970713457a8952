//! Uploads: large ones resume, folders are kept, and they are cancelled, alone and together.

use crate::stage::{BrowserFixture, desktop_view};

/// Chooses a file of 9 MiB to upload.
const PICK_LARGE: &str = "
    const content = new Uint8Array(9 * 1024 * 1024).map((_, at) => at % 251);
    const files = new DataTransfer();
    files.items.add(new File([content], 'large.bin'));
    const picker = document.querySelector('[data-upload] input[type=file]');
    picker.files = files.files;
    picker.dispatchEvent(new Event('change'));";

#[test]
fn large_upload_resumes_after_broken_connection() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/files/uploads");
    // The third piece does not arrive, and the answer to the fourth is lost.
    let script = "
        const real = window.fetch;
        let pieces = 0;
        window.fetch = async (path, options) => {
            if (options.body instanceof Blob) pieces += 1;
            if (options.body instanceof Blob && pieces === 3) throw new TypeError('broken');
            const answer = await real(path, options);
            if (options.body instanceof Blob && pieces === 4) throw new TypeError('broken');
            return answer;
        };
        ";
    stage.browser.run_script(&[script, PICK_LARGE].concat(), &[]);
    let _ = stage.browser.find_element("[href='/files/uploads/large.bin']");
    let stored = stage.service.api_for(&stage.account).download_file("/uploads/large.bin").body;
    let right = stored.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251);
    assert!(stored.len() == 9 * 1024 * 1024 && right, "{} bytes", stored.len());
    stage.assert_quiet();
}

#[test]
fn a_large_upload_is_cancelled() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    // The fourth piece does not arrive until it times out.
    let script = "
        const real = window.fetch;
        window.asked = [];
        window.fetch = async (path, options) => {
            if (path.startsWith('/workspace/uploads')) window.asked.push(options.method);
            if (options.body instanceof Blob && window.asked.length === 5) {
                await new Promise((_, give) => { options.signal.addEventListener('abort', () => give(options.signal.reason)); });
            }
            return real(path, options);
        };
        const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(9 * 1024 * 1024)], 'large.bin'));
        const picker = document.querySelector('[data-upload] input[type=file]');
        if (picker) {
            picker.files = files.files;
            picker.dispatchEvent(new Event('change'));
        } else {
            const paste = new ClipboardEvent('paste', { clipboardData: files, bubbles: true, cancelable: true });
            document.querySelector('.composer textarea').dispatchEvent(paste);
        }";
    for page in ["/files/uploads", "/"] {
        stage.open_path(page);
        stage.browser.run_script(script, &[]);
        let asked = |count: usize| {
            e2e::poll::wait_until("requests", || {
                (stage.browser.run_script("return window.asked.length", &[]) == count).then_some(())
            });
        };
        asked(5);
        assert!(stage.browser.find_element_now("[aria-label='Cancel the upload: large.bin']").is_some());
        stage.browser.click_element(&stage.browser.find_element(".remove"));
        stage.browser.wait_until_gone("progress");
        asked(6);
        assert_eq!(stage.browser.run_script("return window.asked[5]", &[]), "DELETE", "on {page}");
        stage.browser.wait_for_text("Upload cancelled.");
        assert_eq!(
            stage.browser.run_script("return document.body.innerText.includes('large.bin')", &[]),
            false
        );
    }
    assert_eq!(stage.service.api_for(&stage.account).list_directory("/uploads").json()["totalEntries"], 0);
    stage.assert_quiet();
}

#[test]
fn dropped_folder_keeps_subfolders() {
    let folder = tempfile::tempdir().expect("a folder");
    let rents = folder.path().join("rents");
    for (path, content) in [("a.txt", "one"), ("2026/b.txt", "two"), ("2026/.hidden", "three")] {
        let path = rents.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder is made");
        std::fs::write(path, content).expect("a file is written");
    }
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/files/uploads");
    for kind in ["dragEnter", "dragOver", "drop"] {
        let data = serde_json::json!({ "items": [], "files": [rents], "dragOperationsMask": 1 });
        let event = serde_json::json!({ "type": kind, "x": 300, "y": 300, "data": data });
        stage.browser.send_cdp_command("Input.dispatchDragEvent", &event);
    }
    let _ = stage.browser.find_element("[href='/files/uploads/rents']");
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.download_file("/uploads/rents/a.txt").body, b"one");
    assert_eq!(api.download_file("/uploads/rents/2026/b.txt").body, b"two");
    assert_eq!(
        api.list_directory("/uploads/rents/2026").json()["totalEntries"],
        1,
        "hidden files stay where they are"
    );
    stage.assert_quiet();
}

#[test]
fn large_upload_resumes_after_service_kill() {
    let mut stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/files/uploads");
    // The fourth piece waits until the service has ended.
    let script = "
        const real = window.fetch;
        window.pieces = 0;
        window.fetch = async (path, options) => {
            // An upload begins once.
            if (options.body instanceof URLSearchParams && window.pieces > 0) throw new TypeError('begun again');
            if (options.body instanceof Blob) window.pieces += 1;
            if (window.pieces === 4) await new Promise((go) => { window.go = go; });
            return real(path, options);
        };
        ";
    stage.browser.run_script(&[script, PICK_LARGE].concat(), &[]);
    let waits = "return window.pieces === 4 && window.go !== undefined";
    e2e::poll::wait_until("the fourth piece waits", || {
        (stage.browser.run_script(waits, &[]) == true).then_some(())
    });
    stage.service.kill();
    stage.browser.run_script("window.pieces += 1; window.go()", &[]);
    stage.browser.wait_for_text("The connection was lost. Trying again");
    stage.service.restart();
    // The page is reloaded once everything is uploaded.
    let _ = stage.browser.find_element("[href='/files/uploads/large.bin']");
    let stored = stage.service.api_for(&stage.account).download_file("/uploads/large.bin").body;
    let right = stored.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251);
    assert!(stored.len() == 9 * 1024 * 1024 && right, "{} bytes", stored.len());
}

#[test]
fn focus_stays_after_last_cancel() {
    let script = "
        const real = XMLHttpRequest.prototype.send;
        window.held = [];
        XMLHttpRequest.prototype.send = function (form) { window.held.push(() => real.call(this, form)); };
        const files = new DataTransfer();
        for (const name of ['a.txt', 'b.txt']) files.items.add(new File(['x'], name));
        const picker = document.querySelector('[data-upload] input[type=file]');
        picker.files = files.files;
        picker.dispatchEvent(new Event('change'));";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    stage.open_path("/files/uploads");
    browser.run_script(script, &[]);
    e2e::poll::wait_until("both uploads have started", || {
        (browser.run_script("return window.held.length", &[]) == 2).then_some(())
    });
    browser.run_script("document.querySelector('.cancel-all').focus()", &[]);
    browser.run_script("window.held.forEach((go) => go())", &[]);
    browser.wait_for_text("Uploaded");
    let _ = browser.find_element("[href='/files/uploads/b.txt']");
    assert!(browser.find_element_now(".cancel-all:not([hidden])").is_none());
    assert_eq!(browser.run_script("return document.activeElement === document.body", &[]), false);
    stage.assert_quiet();
}

#[test]
fn waiting_uploads_warn_before_leaving() {
    let script = "
        const real = XMLHttpRequest.prototype.send;
        window.real = real;
        window.held = [];
        XMLHttpRequest.prototype.send = function (form) { window.held.push(() => real.call(this, form)); };
        const files = new DataTransfer();
        for (const name of ['a.txt', 'b.txt', 'c.txt', 'd.txt']) files.items.add(new File(['x'], name));
        const picker = document.querySelector('[data-upload] input[type=file]');
        if (picker) {
            picker.files = files.files;
            picker.dispatchEvent(new Event('change'));
        } else {
            const paste = new ClipboardEvent('paste', { clipboardData: files, bubbles: true, cancelable: true });
            document.querySelector('.composer textarea').dispatchEvent(paste);
        }";
    let warns = "const leaving = new Event('beforeunload', { cancelable: true });
        window.dispatchEvent(leaving);
        return leaving.defaultPrevented";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    for (page, rows) in [("/files/uploads", ".uploads li"), ("/", ".attached li")] {
        stage.open_path(page);
        assert_eq!(browser.run_script(warns, &[]), false);
        browser.run_script(script, &[]);
        let count = |selector: &str, count: usize| {
            e2e::poll::wait_until(selector, || {
                let all = format!("return document.querySelectorAll('{selector}').length");
                (browser.run_script(&all, &[]) == count).then_some(())
            });
        };
        count(rows, 4);
        count("progress", 2);
        count(".queued", 2);
        assert_eq!(browser.run_script(warns, &[]), true, "on {page}");
        browser.wait_for_text("Uploaded: 0 / 4");
        // A waiting one is cancelled without waiting for its turn.
        browser.click_element(&browser.find_element("[aria-label='Cancel the upload: d.txt']"));
        count(rows, 3);
        browser.run_script(
            "XMLHttpRequest.prototype.send = window.real; window.held.forEach((go) => go())",
            &[],
        );
        e2e::poll::wait_until("nothing runs", || (browser.run_script(warns, &[]) == false).then_some(()));
    }
    let names: Vec<_> = stage.service.api_for(&stage.account).list_directory("/uploads").json()["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| entry["name"].clone())
        .collect();
    assert_eq!(names, ["a.txt", "b.txt", "c.txt"], "{names:?}");
    stage.assert_quiet();
}

#[test]
fn upload_pieces_fit_proxy_limit() {
    // A proxy that lets requests of 1 MiB through, as nginx does by default.
    let script = "
        const real = window.fetch;
        const most = arguments[0];
        window.fetch = async (path, options) => options?.body instanceof Blob && options.body.size > most
            ? new Response('<html>413</html>', { status: 413 })
            : real(path, options);
        XMLHttpRequest.prototype.send = function () { throw new Error('sent whole'); };
        const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(3 * 1024 * 1024)], 'scan.pdf'));
        const picker = document.querySelector('[data-upload] input[type=file]');
        picker.files = files.files;
        picker.dispatchEvent(new Event('change'));";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/files/uploads");
    stage.browser.run_script(script, &[serde_json::json!(1024)]);
    stage.browser.wait_for_text("A proxy before the service refuses requests of this size.");
    stage.open_path("/files/uploads");
    stage.browser.run_script(script, &[serde_json::json!(1024 * 1024)]);
    let _ = stage.browser.find_element("[href='/files/uploads/scan.pdf']");
    let stored = stage.service.api_for(&stage.account).download_file("/uploads/scan.pdf").body;
    assert_eq!(stored.len(), 3 * 1024 * 1024);
}

#[test]
fn failed_upload_has_no_full_bar() {
    let script = "
        XMLHttpRequest.prototype.send = function () {
            this.upload.dispatchEvent(new ProgressEvent('progress', { loaded: 1, total: 1 }));
            this.dispatchEvent(new ProgressEvent('error'));
        };
        const files = new DataTransfer();
        files.items.add(new File(['x'], 'a.txt'));
        const picker = document.querySelector('[data-upload] input[type=file]');
        picker.files = files.files;
        picker.dispatchEvent(new Event('change'));";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/files/uploads");
    stage.browser.run_script(script, &[]);
    stage.browser.wait_for_text("The upload broke off.");
    assert!(stage.browser.find_element_now("progress").is_none());
    stage.assert_quiet();
}

#[test]
fn cancel_all_stops_every_upload() {
    // Files of a folder `kept/made`. The browser sends no piece of them until they are cancelled.
    let script = "
        const real = window.fetch;
        window.fetch = async (path, options) => {
            if (options?.body instanceof Blob) {
                await new Promise((_, give) => { options.signal.addEventListener('abort', () => give(options.signal.reason)); });
            }
            return real(path, options);
        };
        const content = new Uint8Array(9 * 1024 * 1024);
        const picker = document.querySelector('[data-folder]');
        const list = [...Array(5).keys()].map((number) => {
            const file = new File([content], `${number}.txt`);
            Object.defineProperty(file, 'webkitRelativePath', { value: `kept/made/${number}.txt` });
            return file;
        });
        Object.defineProperty(picker, 'files', { value: list });
        Object.defineProperty(picker, 'value', { value: '', writable: true });
        picker.dispatchEvent(new Event('change'));";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let (browser, api) = (&stage.browser, stage.service.api_for(&stage.account));
    assert_eq!(api.create_folder("/uploads/kept").status, 201);
    stage.open_path("/files/uploads");
    browser.run_script(script, &[]);
    let _ = browser.find_element("[aria-label='Cancel the upload: kept/made/1.txt']");
    e2e::poll::wait_until("the folder is made first", || {
        (api.list_directory("/uploads/kept").json()["totalEntries"] == 1).then_some(())
    });
    browser.click_element(&browser.find_element(".cancel-all"));
    browser.wait_until_gone("progress");
    browser.wait_for_text("Upload cancelled.");
    browser.wait_until_gone(".cancel-all:not([hidden])");
    e2e::poll::wait_until("the folder that was made is removed", || {
        (api.list_directory("/uploads/kept").json()["totalEntries"] == 0).then_some(())
    });
    assert_eq!(api.list_directory("/uploads").json()["totalEntries"], 1, "one that was there before stays");
    assert_eq!(browser.run_script("return document.body.innerText.includes('.txt')", &[]), false);
}
