//! The design page: type, colours with their contrast, spacing, icons, and components in their states. Debug builds only.

use askama::Template;
use axum::response::Response;

use crate::assets::{Addresses, STYLE};
use crate::error;
use crate::texts::Texts;
use crate::visit::Visitor;

/// The minimum contrast of text, by WCAG 2.2 AA.
const TEXT_MIN: f64 = 4.5;
/// The minimum contrast of visible elements other than text: edges of fields, states.
const SHAPE_MIN: f64 = 3.0;

/// Pairs of colours: foreground, background, minimum contrast.
const PAIRS: [(&str, &str, f64); 21] = [
    ("ink", "paper", TEXT_MIN),
    ("ink", "surface", TEXT_MIN),
    ("ink", "raised", TEXT_MIN),
    ("ink", "tint", TEXT_MIN),
    ("soft", "paper", TEXT_MIN),
    ("soft", "surface", TEXT_MIN),
    ("soft", "raised", TEXT_MIN),
    ("soft", "tint", TEXT_MIN),
    ("accent", "paper", TEXT_MIN),
    ("accent", "surface", TEXT_MIN),
    ("accent", "raised", TEXT_MIN),
    ("accent", "accent-tint", TEXT_MIN),
    ("on-accent", "accent", TEXT_MIN),
    ("on-accent", "accent-strong", TEXT_MIN),
    ("bad", "surface", TEXT_MIN),
    ("bad", "raised", TEXT_MIN),
    ("bad", "bad-tint", TEXT_MIN),
    ("edge", "raised", SHAPE_MIN),
    ("edge", "paper", SHAPE_MIN),
    ("good", "surface", SHAPE_MIN),
    ("wait", "surface", SHAPE_MIN),
];

/// A pair of colours on the page.
struct Contrast {
    foreground: &'static str,
    background: &'static str,
    light: String,
    dark: String,
    least: f64,
}

impl Contrast {
    fn is_text(&self) -> bool {
        self.least > SHAPE_MIN
    }
}

#[derive(Template)]
#[template(path = "design.html")]
struct DesignPage {
    texts: Texts,
    assets: &'static Addresses,
    contrasts: Vec<Contrast>,
}

pub(crate) async fn show_design(visitor: Visitor) -> Response {
    let ratio = |theme: &str, pair: (&str, &str)| format!("{:.1}", contrast_ratio(theme, pair));
    let (light, dark) = theme_declarations();
    let contrasts = PAIRS.iter().map(|&(foreground, background, least)| Contrast {
        foreground,
        background,
        light: ratio(light, (foreground, background)),
        dark: ratio(dark, (foreground, background)),
        least,
    });
    let page = DesignPage { texts: visitor.texts, assets: visitor.assets, contrasts: contrasts.collect() };
    error::render_template(&page)
}

/// Returns the declarations of the light and of the dark theme.
fn theme_declarations() -> (&'static str, &'static str) {
    let mut roots = STYLE.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap_or_default());
    (roots.next().unwrap_or_default(), roots.next().unwrap_or_default())
}

/// Returns the contrast of a pair of a theme's colours, from 1 to 21.
fn contrast_ratio(theme: &str, (foreground, background): (&str, &str)) -> f64 {
    let luminances = [foreground, background].map(|name| relative_luminance(theme, name).unwrap_or_default());
    let [one, other] = luminances;
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Returns the relative luminance of a named colour, by WCAG.
fn relative_luminance(theme: &str, name: &str) -> Option<f64> {
    let value = theme.split_once(&format!("--{name}: #"))?.1.split_once(';')?.0;
    let digits: Vec<_> = value.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let channels: Vec<u32> = match digits.len() {
        3 => digits.iter().map(|digit| digit * 17).collect(),
        6 => digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect(),
        _ => return None,
    };
    let linear = |channel: &u32| {
        let share = f64::from(*channel) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let linear: Vec<_> = channels.iter().map(linear).collect();
    Some(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_that_of_the_standard() {
        let theme = "--black: #000; --white: #ffffff; --grey: #767676;";
        assert!((contrast_ratio(theme, ("black", "white")) - 21.0).abs() < 0.01);
        assert!((contrast_ratio(theme, ("grey", "white")) - 4.54).abs() < 0.01);
    }

    #[test]
    fn contrast_ratio_suffices_in_themes() {
        let (light, dark) = theme_declarations();
        for (foreground, background, least) in PAIRS {
            for theme in [light, dark] {
                let both = [foreground, background].map(|name| relative_luminance(theme, name).is_some());
                assert_eq!(both, [true; 2], "{foreground} and {background} have colours");
                let ratio = contrast_ratio(theme, (foreground, background));
                assert!(ratio >= least, "{foreground} on {background}: {ratio:.2} of {least}");
            }
        }
    }
}
