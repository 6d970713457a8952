//! Reads the operator's list of jurisdictions: a TOML file of `[[jurisdictions]]`, each with `id`, `cs`, `en`, `sk`.

use std::path::Path;

use domain::catalog::{CatalogJurisdiction, Localized};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::source::{line_of, read_bounded_file};

/// The maximum number of jurisdictions.
const JURISDICTIONS_MAX: usize = 1000;
/// The longest identifier and the longest label, in bytes.
const ID_MAX_BYTES: usize = 64;
const LABEL_MAX_BYTES: usize = 256;
/// The fields of a jurisdiction: all are required, others are rejected.
const FIELDS: [&str; 4] = ["id", "cs", "en", "sk"];

/// Reads the list.
///
/// # Errors
/// A message with file and line.
pub(crate) fn read_jurisdictions(path: &Path) -> Result<Vec<CatalogJurisdiction>, String> {
    let text = read_bounded_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_jurisdictions(&text)
        .map_err(|(at, error)| format!("{}:{}: {error}", path.display(), line_of(&text, at)))
}

/// Parses the list, or returns the offset and text of the first error.
fn parse_jurisdictions(text: &str) -> Result<Vec<CatalogJurisdiction>, (usize, String)> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let table = table.get_ref();
    if let Some((name, _)) = table.iter().find(|(name, _)| name.get_ref() != "jurisdictions") {
        return Err((name.span().start, format!("unknown key {}", name.get_ref())));
    }
    let list = table.get("jurisdictions").and_then(|list| list.get_ref().as_array());
    let list = list.ok_or((0, "expected a list of [[jurisdictions]]".to_owned()))?;
    if list.is_empty() || list.len() > JURISDICTIONS_MAX {
        return Err((0, format!("expected 1 to {JURISDICTIONS_MAX} jurisdictions")));
    }
    let mut found: Vec<CatalogJurisdiction> = Vec::with_capacity(list.len());
    for entry in list.iter() {
        let one = parse_jurisdiction(entry)?;
        if found.iter().any(|other| other.id == one.id) {
            return Err((entry.span().start, format!("duplicate id {}", one.id)));
        }
        found.push(one);
    }
    Ok(found)
}

fn parse_jurisdiction(entry: &Spanned<DeValue<'_>>) -> Result<CatalogJurisdiction, (usize, String)> {
    let at = entry.span().start;
    let table = entry.get_ref().as_table().ok_or((at, "expected a table".to_owned()))?;
    if let Some((name, _)) = table.iter().find(|(name, _)| !FIELDS.contains(&name.get_ref().as_ref())) {
        return Err((name.span().start, format!("unknown key {}", name.get_ref())));
    }
    let field = |name: &str, bytes_max: usize| {
        let value = table.get(name).ok_or((at, format!("{name} is missing")))?;
        let text = value
            .get_ref()
            .as_str()
            .map(str::trim)
            .filter(|text| (1..=bytes_max).contains(&text.len()) && !text.contains(char::is_control));
        let wanted =
            || (value.span().start, format!("{name}: expected a text of 1 to {bytes_max} bytes on one line"));
        text.map(ToOwned::to_owned).ok_or_else(wanted)
    };
    let label = |name| field(name, LABEL_MAX_BYTES);
    let [id, cs, en, sk] = FIELDS;
    Ok(CatalogJurisdiction {
        id: field(id, ID_MAX_BYTES)?,
        label: Localized::new(label(cs)?, label(en)?, label(sk)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNGARY: &str =
        "[[jurisdictions]]\nid = \"HU\"\ncs = \"Maďarsko\"\nen = \"Hungary\"\nsk = \"Maďarsko\"\n";

    #[test]
    fn parse_jurisdictions_requires_id_and_labels() {
        let list = parse_jurisdictions(HUNGARY).expect("a list");
        assert_eq!((list[0].id.as_str(), list[0].label.en.as_str()), ("HU", "Hungary"));
        let line = |text: &str| {
            parse_jurisdictions(text).map(|_| ()).map_err(|(at, error)| (line_of(text, at), error))
        };
        let twice = format!("{HUNGARY}{HUNGARY}");
        assert_eq!(line(&twice), Err((6, "duplicate id HU".to_owned())));
        assert_eq!(line(&HUNGARY.replace("sk = ", "sl = ")), Err((5, "unknown key sl".to_owned())));
        assert_eq!(line("[[jurisdictions]]\nid = \"HU\"\n"), Err((1, "cs is missing".to_owned())));
        assert!(line(&HUNGARY.replace("\"Hungary\"", "\" \"")).is_err_and(|(line, _)| line == 4));
        assert!(line("jurisdictions = []").is_err() && line("").is_err() && line("id = 1").is_err());
        assert!(line("[[jurisdictions]\n").is_err());
    }
}
