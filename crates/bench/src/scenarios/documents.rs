//! Measures how soon uploaded documents are read and answered from, and the memory for it.
//!
//! The documents are of Debian packages, which are downloaded. Without them nothing is measured, and the output says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::block_on;
use super::start::{machines_memory, to_millis};
use crate::BenchResult;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement, ProcessMemory};
use crate::service::{BenchAccount, BenchService, ask_and_wait, build_upload_request};

/// The packages, and their files that are read.
const WEB_PAGES: [&str; 2] = ["postgresql-doc-15", "python3.11-doc"];
const MANUAL: (&str, &str) = ("r-doc-pdf", "usr/share/R/doc/manual/fullrefman.pdf");
/// The first web pages by path with sizes in this range of bytes: 18 MB.
const PAGES: usize = 500;
const PAGE_BYTES: std::ops::Range<u64> = 15_000..90_000;
/// The deepest folder of a package that is looked into.
const DEPTH_MAX: u32 = 16;

/// The model that answers: the built-in reader.
const READER: &str = "reader";
/// How often each question is asked again.
const ROUNDS: usize = 10;
/// The polling interval of listings, and of memory.
const POLL: Duration = Duration::from_millis(20);
const MEMORY_POLL: Duration = Duration::from_millis(200);
/// The timeout of reading all documents.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The time limit of a question after the documents were read.
const QUESTION_MAX_MILLIS: f64 = 100.0;

/// The machine drivers, and where each service runs with its machine.
const SETTINGS: [(&str, &str, CpuPlacement); 3] = [
    ("sandbox", "sandbox", CpuPlacement::Anywhere),
    ("uml", "uml", CpuPlacement::Anywhere),
    ("uml, one core", "uml", CpuPlacement::Alone),
];

/// Documents that are uploaded together.
struct DocumentCollection {
    name: &'static str,
    /// The names and contents.
    files: Vec<(String, Vec<u8>)>,
    questions: &'static [CollectionQuestion],
    /// The time limit for reading all of them.
    read_max: Duration,
}

/// A question about a collection.
struct CollectionQuestion {
    text: &'static str,
    /// The file that must be cited.
    file: &'static str,
    /// Words that the answer must quote.
    quote: &'static str,
}

const ABOUT_PAGES: [CollectionQuestion; 3] = [
    CollectionQuestion {
        text: "What does VACUUM reclaim?",
        file: "sql-vacuum.html",
        quote: "storage occupied by dead tuples",
    },
    CollectionQuestion {
        text: "What is a heap queue?",
        file: "library-heapq.html",
        quote: "also known as the priority queue algorithm",
    },
    CollectionQuestion {
        text: "Which clause eliminates groups that do not satisfy a condition?",
        file: "queries-table-expressions.html",
        quote: "elimination of group rows using the HAVING clause",
    },
];
const ABOUT_MANUAL: [CollectionQuestion; 2] = [
    CollectionQuestion {
        text: "Which distribution does rweibull generate?",
        file: "fullrefman.pdf#page=",
        quote: "rweibull generates random deviates",
    },
    CollectionQuestion {
        text: "Who wrote the Mersenne-Twister generator?",
        file: "fullrefman.pdf#page=",
        quote: "Matsumoto, M. and Nishimura, T.",
    },
];

/// Measures each collection with each driver.
pub(crate) fn measure_documents() -> BenchResult<Vec<Measurement>> {
    let collections = match download_collections() {
        Ok(collections) => collections,
        Err(error) => {
            writeln!(std::io::stdout(), "documents are not measured: {error}")?;
            return Ok(Vec::new());
        }
    };
    let mut measurements = Vec::new();
    for collection in &collections {
        for (series, driver, place) in SETTINGS {
            let measure = || measure_collection(collection, driver, place);
            let measured =
                if place == CpuPlacement::Alone { process::run_apart(measure) } else { measure() }?;
            measurements.extend(measured.into_iter().map(|measurement| measurement.with_series(series)));
        }
    }
    Ok(measurements)
}

/// Measures a collection, each figure with a separate service.
fn measure_collection(
    collection: &DocumentCollection,
    driver: &'static str,
    place: CpuPlacement,
) -> BenchResult<Vec<Measurement>> {
    let name = |figure: &str| format!("{}: {figure}", collection.name);
    let (listed, questions) = with_service(driver, place, async |service, account| {
        let mut connection = BenchConnection::open(service.address).await?;
        let uploaded = upload_all(&mut connection, account, collection).await?;
        wait_until_listed(&mut connection, account, collection, || Ok(()), POLL).await?;
        let listed = to_millis(uploaded.elapsed());
        Ok((listed, ask_again(&mut connection, account, collection).await?))
    })?;
    let first_answer = with_service(driver, place, async |service, account| {
        let mut connection = BenchConnection::open(service.address).await?;
        let uploaded = upload_all(&mut connection, account, collection).await?;
        wait_until_answered(&mut connection, account, &collection.questions[0]).await?;
        Ok(to_millis(uploaded.elapsed()))
    })?;
    let (machine, of_service) = with_service(driver, place, async |service, account| {
        let mut connection = BenchConnection::open(service.address).await?;
        upload_all(&mut connection, account, collection).await?;
        let (mut machine, mut of_service) = (Vec::new(), Vec::new());
        let sample = || {
            // Processes of the machine that end during the measurement have no memory.
            machine.extend(machines_memory(service).map(ProcessMemory::pss_mebibytes));
            of_service.push(ProcessMemory::of_process(service.pid()?)?.pss_mebibytes());
            Ok(())
        };
        wait_until_listed(&mut connection, account, collection, sample, MEMORY_POLL).await?;
        Ok((machine, of_service))
    })?;
    let read_max = to_millis(collection.read_max);
    Ok(vec![
        Measurement::new(name("listed as read"), MeasurementUnit::Millis, vec![listed])
            .with_goal(Goal::AtMost(read_max)),
        Measurement::new(name("first right answer"), MeasurementUnit::Millis, vec![first_answer])
            .with_goal(Goal::AtMost(read_max)),
        Measurement::new(name("further question"), MeasurementUnit::Millis, questions)
            .with_goal(Goal::AtMost(QUESTION_MAX_MILLIS)),
        Measurement::new(name("machine, Pss"), MeasurementUnit::Mebibytes, machine),
        Measurement::new(name("service, Pss"), MeasurementUnit::Mebibytes, of_service),
    ])
}

fn with_service<T>(
    driver: &'static str,
    place: CpuPlacement,
    work: impl AsyncFnOnce(&BenchService, &BenchAccount) -> BenchResult<T>,
) -> BenchResult<T> {
    let mut service = BenchService::start_with(place, None, Some(driver))?;
    let account = service.create_account()?;
    block_on(work(&service, &account))
}

/// Uploads a collection, which starts the machine. Returns the time of the last response.
async fn upload_all(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    collection: &DocumentCollection,
) -> BenchResult<Instant> {
    for (name, content) in &collection.files {
        connection.call_json(&build_upload_request(name, content, account), 201).await?;
    }
    Ok(Instant::now())
}

/// Waits until the listing says of each file that it is indexed, and calls `meanwhile` before each look at it.
async fn wait_until_listed(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    collection: &DocumentCollection,
    mut meanwhile: impl FnMut() -> BenchResult<()>,
    poll: Duration,
) -> BenchResult<()> {
    let look = build_request("GET", "/api/v1/directories/uploads", Some(&account.key), None);
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        meanwhile()?;
        let listing = connection.call_json(&look, 200).await?;
        let is_indexed = |entry: &&Value| entry["indexing"]["state"] == "indexed";
        let indexed = listing["entries"].as_array().into_iter().flatten().filter(is_indexed).count();
        if indexed == collection.files.len() {
            return Ok(());
        }
        tokio::time::sleep(poll).await;
    }
    Err(format!("{} are not read in time", collection.name).into())
}

/// Asks a question until its answer is the right one.
async fn wait_until_answered(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    question: &CollectionQuestion,
) -> BenchResult<()> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        if is_right(&ask_and_wait(connection, account, READER, question.text).await?, question) {
            return Ok(());
        }
    }
    Err(format!("no right answer: {}", question.text).into())
}

/// Asks all questions several times. Returns the time of each in milliseconds.
async fn ask_again(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    collection: &DocumentCollection,
) -> BenchResult<Vec<f64>> {
    let mut times = Vec::with_capacity(ROUNDS * collection.questions.len());
    for _ in 0..ROUNDS {
        for question in collection.questions {
            let began = Instant::now();
            let answer = ask_and_wait(connection, account, READER, question.text).await?;
            times.push(to_millis(began.elapsed()));
            if !is_right(&answer, question) {
                return Err(format!("not the right answer: {} {answer}", question.text).into());
            }
        }
    }
    Ok(times)
}

fn is_right(answer: &Value, question: &CollectionQuestion) -> bool {
    let has_quote = answer["text"].as_str().is_some_and(|text| text.contains(question.quote));
    has_quote && answer["parts"].to_string().contains(question.file)
}

/// Downloads the packages and returns their documents.
///
/// # Errors
/// Fails if a package cannot be had, or has not the expected documents.
fn download_collections() -> BenchResult<Vec<DocumentCollection>> {
    let folder = tempfile::Builder::new().prefix("bench-documents-").tempdir()?;
    let mut pages = Vec::new();
    for package in WEB_PAGES {
        web_pages(&download_package(&folder, package)?, 0, &mut pages)?;
    }
    pages.sort_unstable();
    pages.truncate(PAGES);
    if pages.len() < PAGES {
        return Err(format!("{WEB_PAGES:?} have {} of {PAGES} pages", pages.len()).into());
    }
    let (package, path) = MANUAL;
    let manual = download_package(&folder, package)?.join(path);
    Ok(vec![
        DocumentCollection {
            name: "500 HTML files",
            files: pages.iter().map(|page| read_named_document(page)).collect::<BenchResult<_>>()?,
            questions: &ABOUT_PAGES,
            read_max: Duration::from_secs(5),
        },
        DocumentCollection {
            name: "2,415 pages",
            files: vec![read_named_document(&manual)?],
            questions: &ABOUT_MANUAL,
            read_max: Duration::from_secs(40),
        },
    ])
}

/// Downloads and unpacks a package, and returns its folder.
fn download_package(folder: &TempDir, package: &str) -> BenchResult<PathBuf> {
    let target = folder.path().join(package);
    std::fs::create_dir(&target)?;
    run_command(Command::new("apt-get").args(["-qq", "download", package]).current_dir(&target))?;
    let archive = std::fs::read_dir(&target)?.next().ok_or("no package was downloaded")??.path();
    run_command(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&target))?;
    Ok(target)
}

fn run_command(command: &mut Command) -> BenchResult<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().into())
}

/// Adds the web pages below a folder that have the right size.
fn web_pages(folder: &Path, depth: u32, pages: &mut Vec<PathBuf>) -> BenchResult<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        if metadata.is_dir() && depth < DEPTH_MAX {
            web_pages(&path, depth + 1, pages)?;
        } else if metadata.is_file()
            && path.extension().is_some_and(|extension| extension == "html")
            && PAGE_BYTES.contains(&metadata.len())
        {
            pages.push(path);
        }
    }
    Ok(())
}

/// Returns a file's content and its name prefixed with its folder's, because folders of a package contain files with the
/// same names.
fn read_named_document(path: &Path) -> BenchResult<(String, Vec<u8>)> {
    let names: Vec<_> =
        path.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    Ok((names.iter().rev().map(AsRef::as_ref).collect::<Vec<_>>().join("-"), std::fs::read(path)?))
}
