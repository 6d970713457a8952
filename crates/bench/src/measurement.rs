//! Results: a measurement and its baseline in the same run.

use std::io::{self, Write};

use serde_json::{Value, json};

/// The unit of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeasurementUnit {
    Millis,
    Micros,
    Mebibytes,
    Kibibytes,
    /// Mebibytes in a second.
    MebibytesPerSecond,
    Times,
    /// Hundredths of one processor.
    Percent,
    PerSecond,
}

impl MeasurementUnit {
    fn symbol(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Mebibytes => "MiB",
            Self::Kibibytes => "KiB",
            Self::MebibytesPerSecond => "MiB/s",
            Self::Times => "x",
            Self::Percent => "%",
            Self::PerSecond => "/s",
        }
    }
}

/// The target of a measurement. Missing it is not a failure: the speed of the host says nothing about the program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// The median is at most this.
    AtMost(f64),
    /// The median is at least this.
    AtLeast(f64),
    /// The median is at least this part of the baseline's.
    RatioAtLeast(f64),
}

/// A measurement with several values.
#[derive(Debug)]
pub(crate) struct Measurement {
    name: String,
    /// The series, if several are measured alike, such as machine drivers.
    series: Option<&'static str>,
    unit: MeasurementUnit,
    values: Vec<f64>,
    baseline: Option<(&'static str, Vec<f64>)>,
    goal: Option<Goal>,
}

impl Measurement {
    pub(crate) fn new(name: impl Into<String>, unit: MeasurementUnit, values: Vec<f64>) -> Self {
        Self { name: name.into(), series: None, unit, values, baseline: None, goal: None }
    }

    pub(crate) fn with_series(mut self, series: &'static str) -> Self {
        self.series = Some(series);
        self
    }

    /// Adds the baseline's values from the same run.
    pub(crate) fn with_baseline(mut self, name: &'static str, values: Vec<f64>) -> Self {
        self.baseline = Some((name, values));
        self
    }

    pub(crate) fn with_goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name with the series.
    fn full_name(&self) -> String {
        match self.series {
            Some(series) => format!("{} ({series})", self.name),
            None => self.name.clone(),
        }
    }

    pub(crate) fn series_name(&self) -> Option<&'static str> {
        self.series
    }

    pub(crate) fn unit(&self) -> &'static str {
        self.unit.symbol()
    }

    pub(crate) fn median_value(&self) -> f64 {
        median_of_values(&self.values)
    }

    /// Returns the baseline's name and median.
    pub(crate) fn baseline_median(&self) -> Option<(&'static str, f64)> {
        self.baseline.as_ref().map(|(name, values)| (*name, median_of_values(values)))
    }

    fn baseline_ratio(&self) -> Option<f64> {
        let (_, values) = self.baseline.as_ref()?;
        let baseline = median_of_values(values);
        (baseline > 0.0).then(|| median_of_values(&self.values) / baseline)
    }

    /// Returns true if the target is met; `None` without a target.
    fn is_goal_reached(&self) -> Option<bool> {
        match self.goal? {
            Goal::AtMost(most) => Some(median_of_values(&self.values) <= most),
            Goal::AtLeast(least) => Some(median_of_values(&self.values) >= least),
            Goal::RatioAtLeast(least) => self.baseline_ratio().map(|ratio| ratio >= least),
        }
    }

    fn format_line(&self) -> String {
        let [low, middle, high] = min_median_max(&self.values).map(format_number);
        let unit = self.unit.symbol();
        let mut line = format!("{:<46} {low:>9} {middle:>9} {high:>9} {unit:<4}", self.full_name());
        if let Some((name, values)) = &self.baseline {
            let [low, middle, high] = min_median_max(values).map(format_number);
            let ratio = self.baseline_ratio().map_or_else(|| "-".to_owned(), format_number);
            line.push_str(&format!("{ratio:>8} x {name} ({low} {middle} {high})"));
        }
        let told = match (self.goal, self.is_goal_reached()) {
            (Some(Goal::AtMost(most)), Some(reached)) => {
                format!("  [at most {most}: {}]", goal_label(reached))
            }
            (Some(Goal::AtLeast(least)), Some(reached)) => {
                format!("  [at least {least}: {}]", goal_label(reached))
            }
            (Some(Goal::RatioAtLeast(least)), Some(reached)) => {
                format!("  [ratio at least {least}: {}]", goal_label(reached))
            }
            _ => String::new(),
        };
        line + &told
    }

    fn to_json(&self) -> Value {
        let values = |values: &[f64]| {
            let [min, median, max] = min_median_max(values);
            json!({"min": min, "median": median, "max": max, "values": values})
        };
        let baseline = self.baseline.as_ref();
        let (at_most, at_least, ratio_at_least) = match self.goal {
            Some(Goal::AtMost(most)) => (Some(most), None, None),
            Some(Goal::AtLeast(least)) => (None, Some(least), None),
            Some(Goal::RatioAtLeast(least)) => (None, None, Some(least)),
            None => (None, None, None),
        };
        json!({
            "name": self.full_name(), "unit": self.unit.symbol(), "measured": values(&self.values),
            "baseline": baseline.map(|(name, of)| json!({"name": name, "measured": values(of)})),
            "ratio": self.baseline_ratio(), "atMost": at_most, "atLeast": at_least, "ratioAtLeast": ratio_at_least, "reached": self.is_goal_reached(),
        })
    }
}

/// Prints the column headers.
pub(crate) fn print_head(out: &mut impl Write) -> io::Result<()> {
    let head = format!("{:<46} {:>9} {:>9} {:>9} {:<4}", "figure", "min", "median", "max", "");
    writeln!(out, "{head}{:>8}   baseline (min median max)  [goal]", "ratio")
}

/// Prints a line for each measurement.
pub(crate) fn print_measurements(out: &mut impl Write, measurements: &[Measurement]) -> io::Result<()> {
    measurements.iter().try_for_each(|measurement| writeln!(out, "{}", measurement.format_line()))?;
    out.flush()
}

/// Returns all measurements as a JSON document.
pub(crate) fn measurements_json(measurements: &[Measurement]) -> Value {
    json!({"figures": measurements.iter().map(Measurement::to_json).collect::<Vec<_>>()})
}

/// Returns the percentile (0.5 is the median); 0 without values.
pub(crate) fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let at = ((sorted.len().saturating_sub(1)) as f64 * part).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

fn median_of_values(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

fn min_median_max(values: &[f64]) -> [f64; 3] {
    [0.0, 0.5, 1.0].map(|part| percentile(values, part))
}

/// Formats three significant digits.
pub(crate) fn format_number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn goal_label(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurement_line_spread_ratio_goal() {
        let measurement = Measurement::new("x", MeasurementUnit::Millis, vec![3.0, 1.0, 2.0])
            .with_baseline("bare", vec![4.0, 4.0, 5.0]);
        assert_eq!(measurement.baseline_ratio(), Some(0.5));
        let measurement = measurement.with_goal(Goal::AtMost(2.0));
        assert_eq!(measurement.is_goal_reached(), Some(true));
        assert!(
            measurement.format_line().contains("1.00      2.00      3.00 ms"),
            "{}",
            measurement.format_line()
        );
        let measurement = measurement.with_goal(Goal::RatioAtLeast(0.6));
        assert_eq!(
            (measurement.is_goal_reached(), measurement.to_json()["reached"].as_bool()),
            (Some(false), Some(false))
        );
        assert!(measurement.format_line().ends_with("MISSED]"));
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| percentile(&values, part)), [1.0, 51.0, 99.0, 100.0]);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
