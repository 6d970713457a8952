//! Measures the time from a model's tool call to its next step.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::block_on;
use crate::BenchResult;
use crate::http::BenchConnection;
use crate::measurement::{Measurement, MeasurementUnit};
use crate::process::CpuPlacement;
use crate::service::{BenchAccount, BenchService, ask_and_wait, build_upload_request};
use crate::vendor::{BenchVendor, MODEL, parse_stamps};

/// The files in the workspace.
const DOCUMENTS: &[(&str, &[u8])] = &[
    ("najemni-smlouva-byt.pdf", include_bytes!("../../../../examples/documents/najemni-smlouva-byt.pdf")),
    ("employment-contract.docx", include_bytes!("../../../../examples/documents/employment-contract.docx")),
    ("domovni-rad.txt", include_bytes!("../../../../examples/documents/domovni-rad.txt")),
    ("rent-roll.xlsx", include_bytes!("../../../../examples/documents/rent-roll.xlsx")),
];
const TURNS: usize = 10;
/// The words that the model writes before each call.
const WORDS: u32 = 10;
const WORD_MILLIS: u64 = 40;
/// The commits of one step with a call: reservation, step, result.
const COMMITS: usize = 3;
const COMMIT_BYTES: usize = 4096;

/// A tool of a missing server of the machine.
const NOTHING: &str = "nothing__here";

/// Returns the calls in order.
fn tool_calls() -> Vec<(&'static str, Value)> {
    vec![
        ("search", json!({"query": "výpovědní doba nájmu"})),
        ("read", json!({"path": "/uploads/najemni-smlouva-byt.pdf"})),
        ("list", json!({"path": "/uploads"})),
        ("find", json!({"glob": "**/*.txt", "content": "klid"})),
        ("write", json!({"path": "/note.txt", "content": "alpha\n"})),
        ("edit", json!({"path": "/note.txt", "old": "alpha", "new": "beta"})),
        ("shell", json!({"command": "cat note.txt"})),
        // The machine has no such server: the rest is the service's time.
        (NOTHING, json!({})),
    ]
}

/// Measures each tool once in each of several turns.
pub(crate) fn measure_tools() -> BenchResult<Vec<Measurement>> {
    let vendor = BenchVendor::start()?;
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, Some(vendor.base_url.clone()))?;
    let account = service.create_account()?;
    let turns = block_on(async {
        let mut connection = BenchConnection::open(service.address).await?;
        for (name, content) in DOCUMENTS {
            connection.call_json(&build_upload_request(name, content, &account), 201).await?;
        }
        let mut turns = Vec::with_capacity(TURNS + 1);
        for _ in 0..=TURNS {
            turns.push(run_tool_turn(&mut connection, &account, &tool_calls()).await?);
        }
        Ok(turns)
    })?;
    let commits = (0..TURNS).map(|_| bare_commits(&service.folder())).collect::<BenchResult<Vec<_>>>()?;
    let shells = (0..TURNS).map(|_| bare_shell(&service.folder())).collect::<BenchResult<Vec<_>>>()?;
    let mut measurements = vec![Measurement::new(
        "tool search, the first of a workspace",
        MeasurementUnit::Millis,
        vec![turns[0][0]],
    )];
    for (at, (tool, _)) in tool_calls().into_iter().enumerate() {
        let values = turns.iter().skip(1).map(|turn| turn[at]).collect();
        measurements.push(match tool {
            NOTHING => {
                Measurement::new("a step with a call, without the tool", MeasurementUnit::Millis, values)
                    .with_baseline("three bare commits", commits.clone())
            }
            "shell" => Measurement::new("tool shell", MeasurementUnit::Millis, values)
                .with_baseline("bare sh -c", shells.clone()),
            tool => Measurement::new(format!("tool {tool}"), MeasurementUnit::Millis, values),
        });
    }
    Ok(measurements)
}

/// Runs one turn with these calls, a step for each. Returns their durations in milliseconds. The model writes for a while
/// before each call, as models do, and includes its send time at the beginning of each step and before its call.
pub(super) async fn run_tool_turn(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    calls: &[(&str, Value)],
) -> BenchResult<Vec<f64>> {
    let stamp = || json!({"tokens": {"count": 1, "stamp": true}});
    let words = || json!({"tokens": {"count": WORDS, "every_ms": WORD_MILLIS}});
    let mut steps: Vec<Value> = calls
        .iter()
        .map(|(tool, arguments)| {
            json!({"actions": [stamp(), words(), stamp(), {"call": {"tool": tool, "arguments": arguments}}]})
        })
        .collect();
    steps.push(json!({"actions": [stamp()]}));
    let script = json!({"steps": steps});
    let answer = ask_and_wait(connection, account, MODEL, &format!("STANDIN {script}")).await?;
    let states: Vec<(&str, &str)> = answer["parts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| Some((part["toolName"].as_str()?, part["state"].as_str()?)))
        .collect();
    let wrong = |(tool, state): &&(&str, &str)| (*state == "COMPLETE") == (*tool == NOTHING);
    if let Some((tool, state)) = states.iter().find(wrong) {
        return Err(format!("the tool {tool} ended as {state}").into());
    }
    let spoken = parse_stamps(answer["text"].as_str().unwrap_or_default());
    if spoken.len() != 2 * calls.len() + 1 || states.len() != calls.len() {
        return Err(format!("a turn is missing steps: {answer}").into());
    }
    Ok(spoken[1..].chunks_exact(2).map(|pair| pair[1].1.saturating_sub(pair[0].1) as f64 / 1e3).collect())
}

/// Measures the disk's part of a step.
fn bare_commits(folder: &Path) -> BenchResult<f64> {
    let mut file = File::options().create(true).append(true).open(folder.join("commits"))?;
    let began = Instant::now();
    for _ in 0..COMMITS {
        file.write_all(&[b'x'; COMMIT_BYTES])?;
        file.sync_data()?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn bare_shell(folder: &Path) -> BenchResult<f64> {
    let began = Instant::now();
    let output = Command::new("/bin/sh").args(["-c", "cat commits"]).current_dir(folder).output()?;
    if output.status.success() { Ok(began.elapsed().as_secs_f64() * 1e3) } else { Err("sh fails".into()) }
}
