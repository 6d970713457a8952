//! Reads charts of Office documents: a line for each category, with the value of each series and its name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::ExtractError;
use super::xml::{attribute_value, event_text, read_events};

/// The maximum number of points of a chart that are read.
const POINTS_MAX: usize = 10_000;
/// The maximum number of series of a chart that are read.
const SERIES_MAX: usize = 100;

/// Returns the title, the titles of the axes, and the values that the document keeps beside the chart.
pub(super) fn read_chart_lines(part: impl Read) -> Result<Vec<String>, ExtractError> {
    let mut chart = Chart::default();
    read_events(part, |event| {
        match event {
            Event::Start(element) => chart.start_element(element),
            Event::End(element) => chart.end_element(element.local_name().as_ref()),
            _ => {
                if chart.in_text {
                    chart.text.extend(event_text(event));
                }
            }
        }
        chart.points <= POINTS_MAX && chart.series.len() <= SERIES_MAX
    })?;
    Ok(chart.into_lines())
}

#[derive(Default)]
struct Chart {
    /// The title of the chart and of its axes.
    titles: Vec<String>,
    series: Vec<Series>,
    points: usize,
    /// The role of the values that are being read.
    role: ChartTextRole,
    index: u32,
    in_text: bool,
    text: String,
}

#[derive(Default)]
struct Series {
    name: String,
    categories: BTreeMap<u32, String>,
    values: BTreeMap<u32, String>,
}

#[derive(Clone, Copy, Default)]
enum ChartTextRole {
    #[default]
    None,
    Name,
    Category,
    Value,
}

impl Chart {
    fn start_element(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "ser" => self.series.push(Series::default()),
            "tx" if !self.series.is_empty() => self.role = ChartTextRole::Name,
            "cat" | "xVal" => self.role = ChartTextRole::Category,
            "val" | "yVal" => self.role = ChartTextRole::Value,
            "pt" => {
                self.index = attribute_value(element, "idx").and_then(|index| index.parse().ok()).unwrap_or(0)
            }
            "v" | "t" => {
                self.in_text = true;
                self.text.clear();
            }
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "v" => self.add_value(),
            // Text that is not of a series: the title of the chart or of an axis, in pieces.
            "t" if matches!(self.role, ChartTextRole::None) => {
                let text = self.text.clone();
                match self.titles.last_mut() {
                    Some(title) => title.push_str(&text),
                    None => self.titles.push(text),
                }
            }
            "p" if self.titles.last().is_some_and(|title| !title.is_empty()) => {
                self.titles.push(String::new());
            }
            "tx" | "cat" | "xVal" | "val" | "yVal" => self.role = ChartTextRole::None,
            _ => {}
        }
        self.in_text = false;
    }

    fn add_value(&mut self) {
        self.points += 1;
        let text = self.text.trim().to_owned();
        let Some(series) = self.series.last_mut() else { return };
        match self.role {
            ChartTextRole::None => {}
            ChartTextRole::Name if series.name.is_empty() => series.name = text,
            ChartTextRole::Name => series.name.extend([" ", text.as_str()]),
            // A category of several levels has one text at each.
            ChartTextRole::Category => {
                let category = series.categories.entry(self.index).or_default();
                if !category.is_empty() {
                    category.push(' ');
                }
                category.push_str(&text);
            }
            ChartTextRole::Value => drop(series.values.insert(self.index, text)),
        }
    }

    fn into_lines(self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.titles.into_iter().filter(|title| !title.trim().is_empty()).collect();
        let rows = self.series.iter().flat_map(|series| series.values.keys().chain(series.categories.keys()));
        for index in rows.copied().collect::<BTreeSet<_>>() {
            let category = self.series.iter().find_map(|series| series.categories.get(&index));
            let mut line = category.cloned().unwrap_or_default();
            for series in &self.series {
                match series.values.get(&index) {
                    Some(value) if series.name.is_empty() => line.extend(["\t", value]),
                    Some(value) => line.extend(["\t", &series.name, ": ", value]),
                    None => {}
                }
            }
            lines.push(line);
        }
        lines
    }
}
