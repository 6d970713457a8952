//! Draws measurements as bars, in SVG for the documentation.

use std::fmt::Write;

use crate::measurement::{Measurement, format_number};

const WIDTH: u32 = 720;
/// The start of bars, and the length of the longest bar of a figure.
const BARS_AT: u32 = 110;
const BAR_MAX: f64 = 480.0;
const ROW: u32 = 20;
const BAR: u32 = 14;
const TITLE: u32 = 26;
/// The space between figures.
const GAP: u32 = 14;
/// The colours of the series in their order, in light and dark surroundings.
const COLOURS: [(&str, &str); 3] = [("#2f6f5e", "#7cc4ae"), ("#8a5a2b", "#d9a066"), ("#8b8b86", "#8f938f")];

/// Returns a chart of these measurements: for each figure a bar for each series and one for the baseline, the longest
/// of them as long as the chart is wide.
pub(crate) fn draw_chart(measurements: &[Measurement]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for measurement in measurements {
        if !names.contains(&measurement.name()) {
            names.push(measurement.name());
        }
    }
    let (mut body, mut y) = (String::new(), GAP);
    for name in names {
        let of_name = || measurements.iter().filter(|measurement| measurement.name() == name);
        let mut bars: Vec<(&str, f64)> =
            of_name().map(|of| (of.series_name().unwrap_or("causerie"), of.median_value())).collect();
        bars.extend(of_name().find_map(Measurement::baseline_median));
        let unit = of_name().next().map_or("", Measurement::unit);
        let longest = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(body, "<text class=\"name\" x=\"8\" y=\"{}\">{}</text>", y + 14, escape_svg(name));
        y += TITLE;
        let last = bars.len().saturating_sub(1);
        for (at, (series, value)) in bars.iter().enumerate() {
            // The baseline, which comes last, has the same colour in every figure.
            let class = if at == last { COLOURS.len() - 1 } else { at.min(COLOURS.len() - 2) };
            let length = (value / longest * BAR_MAX).max(1.0);
            let middle = y + BAR - 3;
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"s{class}\" x=\"{BARS_AT}\" y=\"{y}\" width=\"{length:.0}\" height=\"{BAR}\" rx=\"2\"/>\
                 <text x=\"{:.0}\" y=\"{middle}\">{} {unit}</text>",
                BARS_AT - 8,
                escape_svg(series),
                f64::from(BARS_AT) + length + 6.0,
                format_number(*value),
            );
            y += ROW;
        }
        y += GAP;
    }
    let rules = |dark: bool| {
        let fills = COLOURS.iter().enumerate().map(|(at, (light, night))| {
            let colour = if dark { night } else { light };
            format!(".s{at}{{fill:{colour}}}")
        });
        let text = if dark { "#e6e6e1" } else { "#22251f" };
        format!("text{{fill:{text}}}{}", fills.collect::<String>())
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n<style>.name{{font-weight:600}}{}\
         @media(prefers-color-scheme:dark){{{}}}</style>\n{body}</svg>\n",
        rules(false),
        rules(true)
    )
}

fn escape_svg(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::MeasurementUnit;

    #[test]
    fn draw_chart_bars_per_figure() {
        let of = |series, value| {
            Measurement::new("start & stop", MeasurementUnit::Millis, vec![value])
                .with_series(series)
                .with_baseline("sandbox", vec![10.0])
        };
        let drawn = draw_chart(&[of("uml", 100.0), of("qemu", 200.0)]);
        assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
        for expected in [
            "start &amp; stop",
            ">uml<",
            ">qemu<",
            ">sandbox<",
            ">200 ms<",
            "width=\"480\"",
            "width=\"240\"",
            "width=\"24\"",
        ] {
            assert!(drawn.contains(expected), "{expected}: {drawn}");
        }
        assert_eq!(drawn.matches("start &amp; stop").count(), 1);
    }
}
