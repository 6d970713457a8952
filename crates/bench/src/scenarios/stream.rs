//! Measures the stream between the service and a machine of each driver, by the agent of the tests.

use std::process::Command;

use serde_json::Value;

use super::compare_with_sandbox;
use crate::BenchResult;
use crate::measurement::{Goal, Measurement, MeasurementUnit};

/// The minimum rate in each direction, in MiB/s: 20 MB/s.
const RATE_MIN: f64 = 19.1;

/// The measurements of one driver.
struct StreamFigures {
    to: Vec<f64>,
    from: Vec<f64>,
    round_trips: Vec<f64>,
}

/// Measures the drivers; the sandbox is the baseline.
pub(crate) fn measure_stream() -> BenchResult<Vec<Measurement>> {
    compare_with_sandbox(measure_driver_stream, stream_measurements)
}

fn stream_measurements(
    driver: &'static str,
    figures: StreamFigures,
    sandbox: &StreamFigures,
) -> Vec<Measurement> {
    let beside = |name: &str, unit, values: Vec<f64>, of_sandbox: &[f64]| {
        Measurement::new(name, unit, values).with_series(driver).with_baseline("sandbox", of_sandbox.to_vec())
    };
    let rate = MeasurementUnit::MebibytesPerSecond;
    vec![
        beside("stream to the machine", rate, figures.to, &sandbox.to).with_goal(Goal::AtLeast(RATE_MIN)),
        beside("stream from the machine", rate, figures.from, &sandbox.from)
            .with_goal(Goal::AtLeast(RATE_MIN)),
        beside(
            "round trip of a small request",
            MeasurementUnit::Micros,
            figures.round_trips,
            &sandbox.round_trips,
        ),
    ]
}

/// Runs `probe_agent stream`, which `make bench` builds beside this program.
fn measure_driver_stream(driver: &'static str) -> BenchResult<StreamFigures> {
    let program = std::env::current_exe()?.with_file_name("examples").join("probe_agent");
    let folder = tempfile::Builder::new().prefix("bench-").tempdir()?;
    // Machines run as other users.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
    let output = Command::new(&program)
        .arg("stream")
        .args([folder.path().as_os_str(), driver.as_ref()])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let figures: Value = serde_json::from_slice(&output.stdout)?;
    let values = |name: &str| {
        figures[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>()
    };
    Ok(StreamFigures { to: values("to"), from: values("from"), round_trips: values("round_trips") })
}
