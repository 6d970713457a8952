//! Value types of settings: parsing and formatting.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::raw::Raw;

/// The longest text of a value, in bytes.
const TEXT_MAX_BYTES: usize = 4096;

/// Parses a value, or describes the expected form.
type Reading<T> = Box<dyn Fn(&Raw) -> Result<T, String>>;

/// A value type: its parser, its formatter as TOML that parses to the same value, and the JSON Schema of a value in the file.
pub(crate) struct SettingForm<T> {
    pub(crate) read: Reading<T>,
    pub(crate) show: fn(&T) -> String,
    pub(crate) schema: Value,
}

/// Returns the schema of a text of one line.
pub(crate) fn text_schema() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// Returns the schema of a number within bounds, or a text of this pattern.
fn number_schema(kind: &str, bounds: &RangeInclusive<u64>, pattern: &str) -> Value {
    json!({ "type": [kind, "string"], "minimum": bounds.start(), "maximum": bounds.end(), "pattern": pattern })
}

/// A text of one line.
pub(crate) fn text_form() -> SettingForm<String> {
    SettingForm {
        read: Box::new(|raw| single_line(raw).map(ToOwned::to_owned)),
        show: |text| quote_toml(text),
        schema: text_schema(),
    }
}

/// A path, relative to the working folder.
pub(crate) fn path_form() -> SettingForm<PathBuf> {
    SettingForm {
        read: Box::new(|raw| single_line(raw).map(PathBuf::from)),
        show: |path| quote_toml(&path.to_string_lossy()),
        schema: text_schema(),
    }
}

/// Paths separated by colons.
pub(crate) fn path_list_form() -> SettingForm<Vec<PathBuf>> {
    let read = |raw: &Raw| {
        let paths = single_line(raw)?.split(':').filter(|path| !path.is_empty());
        Ok(paths.map(PathBuf::from).collect())
    };
    let show = |paths: &Vec<PathBuf>| {
        let shown: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        quote_toml(&shown.join(":"))
    };
    SettingForm { read: Box::new(read), show, schema: text_schema() }
}

/// True or false.
pub(crate) fn flag_form() -> SettingForm<bool> {
    let read = |raw: &Raw| match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Typed(text) => text.parse().map_err(|_| "expected true or false".to_owned()),
        Raw::Text(_) | Raw::Number(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
            Err(format!("expected true or false, not {}", raw.kind_name()))
        }
    };
    SettingForm { read: Box::new(read), show: ToString::to_string, schema: json!({ "type": "boolean" }) }
}

/// An uninterpreted table, or its JSON in a text.
pub(crate) fn object_form() -> SettingForm<Map<String, Value>> {
    let read = |raw: &Raw| match raw {
        Raw::Table(table) => Ok(table.clone()),
        Raw::Text(text) | Raw::Typed(text) => {
            serde_json::from_str(text).map_err(|_| "expected a table or a JSON object".to_owned())
        }
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other(_) => {
            Err(format!("expected a table, not {}", raw.kind_name()))
        }
    };
    let show = |table: &Map<String, Value>| quote_toml(&Value::Object(table.clone()).to_string());
    SettingForm { read: Box::new(read), show, schema: json!({ "type": ["object", "string"] }) }
}

/// A list of texts of one line; separated by commas in a variable.
pub(crate) fn text_list_form(most: usize) -> SettingForm<Vec<String>> {
    let read = move |raw: &Raw| {
        let texts: Vec<String> = match raw {
            Raw::List(texts) => texts.clone(),
            Raw::Typed(text) => text.split(',').map(|text| text.trim().to_owned()).collect(),
            Raw::Text(_) | Raw::Number(_) | Raw::Flag(_) | Raw::Table(_) | Raw::Other(_) => {
                return Err(format!("expected a list of texts, not {}", raw.kind_name()));
            }
        };
        let fits = |text: &String| single_line(&Raw::Typed(text.clone())).is_ok();
        if texts.len() > most || !texts.iter().all(fits) {
            return Err(format!("expected at most {most} texts of one line"));
        }
        Ok(texts)
    };
    let show = |texts: &Vec<String>| {
        let texts: Vec<String> = texts.iter().map(|text| quote_toml(text)).collect();
        format!("[{}]", texts.join(", "))
    };
    SettingForm {
        read: Box::new(read),
        show,
        schema: json!({ "type": "array", "items": text_schema(), "maxItems": most }),
    }
}

/// A socket address: an IP address and a port.
pub(crate) fn address_form() -> SettingForm<SocketAddr> {
    let read = |raw: &Raw| listen_address(single_line(raw)?);
    SettingForm {
        read: Box::new(read),
        show: |address| quote_toml(&address.to_string()),
        schema: text_schema(),
    }
}

/// Reads an address to listen on: `127.0.0.1:8080`, `[::]:8080`, `localhost:8080`, `:8080` (all IPv4 addresses of the host), or
/// only the port.
///
/// # Errors
/// A description of the expected form.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let expected = || {
        "expected an address like \"127.0.0.1:8080\", \"localhost:8080\", \":8080\" or \"8080\"".to_owned()
    };
    let of_port = |host: Ipv4Addr, port: &str| port.parse().map(|port| SocketAddr::from((host, port)));
    match text.rsplit_once(':') {
        None => of_port(Ipv4Addr::LOCALHOST, text),
        Some(("", port)) => of_port(Ipv4Addr::UNSPECIFIED, port),
        Some(("localhost", port)) => of_port(Ipv4Addr::LOCALHOST, port),
        Some(_) => return text.parse().map_err(|_| expected()),
    }
    .map_err(|_| expected())
}

/// One of several words.
pub(crate) fn choice_form<T: Copy + PartialEq + 'static>(
    words: &'static [(&'static str, T)],
    show: fn(&T) -> String,
) -> SettingForm<T> {
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let schema = json!({ "enum": names });
    let read = move |raw: &Raw| {
        let typed = single_line(raw)?;
        let found = words.iter().find(|(word, _)| *word == typed).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| quote_toml(word)).collect();
            format!("expected one of {}", words.join(", "))
        })
    };
    SettingForm { read: Box::new(read), show, schema }
}

/// A whole number within bounds.
pub(crate) fn count_form(bounds: RangeInclusive<u64>) -> SettingForm<u64> {
    let schema = number_schema("integer", &bounds, "^[0-9_]+$");
    let read = move |raw: &Raw| {
        let number = number_text(raw).and_then(|digits| digits.replace('_', "").parse().ok());
        number
            .filter(|number| bounds.contains(number))
            .ok_or_else(|| format!("expected an integer from {} to {}", bounds.start(), bounds.end()))
    };
    SettingForm { read: Box::new(read), show: ToString::to_string, schema }
}

/// A size in bytes within bounds: a number, optionally in KiB, MiB, GiB or TiB.
pub(crate) fn byte_size_form(bounds: RangeInclusive<u64>) -> SettingForm<u64> {
    let schema = number_schema("integer", &bounds, "^[0-9_]+ *([KkMmGgTt][Ii][Bb])?$");
    let read = move |raw: &Raw| {
        let number = number_text(raw)
            .and_then(|text| with_unit(text, &[("", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)]));
        let bytes = number.and_then(|(number, shift)| number.checked_mul(1 << shift));
        bytes.filter(|bytes| bounds.contains(bytes)).ok_or_else(|| {
            let (least, most) = (format_bytes(*bounds.start()), format_bytes(*bounds.end()));
            format!("expected bytes from {least} to {most}, such as 65536 or \"64 KiB\"")
        })
    };
    SettingForm { read: Box::new(read), show: |bytes| quote_toml(&format_bytes(*bytes)), schema }
}

/// A duration within bounds, with its unit.
pub(crate) fn duration_form(bounds: RangeInclusive<Duration>) -> SettingForm<Duration> {
    let read = move |raw: &Raw| {
        let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let number = single_line(raw).ok().and_then(|text| with_unit(text, &units));
        let time = number.and_then(|(number, unit)| number.checked_mul(unit)).map(Duration::from_millis);
        time.filter(|time| bounds.contains(time)).ok_or_else(|| {
            let (least, most) = (format_duration(bounds.start()), format_duration(bounds.end()));
            format!("expected a duration from {least} to {most}, such as \"90s\" or \"15m\"")
        })
    };
    SettingForm {
        read: Box::new(read),
        show: |time| quote_toml(&format_duration(time)),
        schema: json!({ "type": "string", "pattern": "^[0-9_]+ *([Mm]?[Ss]|[MmHhDd])$" }),
    }
}

/// A duration or `never`.
pub(crate) fn duration_or_never(bounds: RangeInclusive<Duration>) -> SettingForm<Option<Duration>> {
    let inner = duration_form(bounds);
    let read = move |raw: &Raw| match single_line(raw) {
        Ok("never") => Ok(None),
        _ => (inner.read)(raw).map(Some).map_err(|wanted| format!("{wanted}, or \"never\"")),
    };
    SettingForm {
        read: Box::new(read),
        show: |time| {
            time.as_ref().map_or_else(|| quote_toml("never"), |time| quote_toml(&format_duration(time)))
        },
        schema: json!({ "type": "string", "pattern": "^(never|[0-9_]+ *([Mm]?[Ss]|[MmHhDd]))$" }),
    }
}

/// Credits with up to three decimals, in thousandths.
pub(crate) fn credits_form() -> SettingForm<u64> {
    const MOST: u64 = 1_000_000_000;
    let read = |raw: &Raw| {
        let number = number_text(raw).and_then(|text| {
            let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(decimals) || decimals.len() > 3 {
                return None;
            }
            let millis: u64 = format!("{decimals:0<3}").parse().ok()?;
            whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(millis)
        });
        let wanted = "expected credits from 0 to 1000000 with at most three decimals";
        number.filter(|millis| *millis <= MOST).ok_or_else(|| wanted.to_owned())
    };
    let show = |millis: &u64| {
        let text = format!("{}.{:03}", millis / 1000, millis % 1000);
        let text = text.trim_end_matches('0');
        if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
    };
    SettingForm {
        read: Box::new(read),
        show,
        schema: number_schema("number", &(0..=MOST / 1000), "^[0-9]+([.][0-9]{1,3})?$"),
    }
}

/// Quotes a text as in TOML.
pub(crate) fn quote_toml(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a non-empty line of text.
pub(crate) fn single_line(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Text(text) | Raw::Typed(text)
            if !text.is_empty() && text.len() <= TEXT_MAX_BYTES && !text.contains(char::is_control) =>
        {
            Ok(text)
        }
        Raw::Text(_) | Raw::Typed(_) => Err("expected one line of text".to_owned()),
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
            Err(format!("expected a text in quotes, not {}", raw.kind_name()))
        }
    }
}

/// Returns a number of the file, or a text that may be one.
fn number_text(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Text(text) | Raw::Typed(text) | Raw::Number(text) => Some(text.trim()),
        Raw::Flag(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => None,
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<(u64, u64)> {
    let text = text.trim();
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?.1;
    Some((digits.replace('_', "").parse().ok()?, factor))
}

fn format_bytes(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn format_duration(time: &Duration) -> String {
    let millis = time.as_millis();
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis != 0 && millis.is_multiple_of(factor) {
            return format!("{}{unit}", millis / factor);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_value<T>(form: &SettingForm<T>, text: &str) -> Option<T> {
        (form.read)(&Raw::Typed(text.to_owned())).ok()
    }

    #[test]
    fn unit_forms_round_trip_within_bounds() {
        let form = byte_size_form(1..=1 << 40);
        for (text, value) in
            [("65536", 65536), ("64 KiB", 65536), ("64kib", 65536), ("1_000", 1000), ("1TiB", 1 << 40)]
        {
            assert_eq!(read_value(&form, text), Some(value), "{text}");
            assert_eq!(read_value(&form, (form.show)(&value).trim_matches('"')), Some(value), "{text}");
        }
        for text in ["", "0", "2 TiB", "64 KB", "-1", "1.5 GiB", "99999999999999999999", "KiB"] {
            assert_eq!(read_value(&form, text), None, "{text}");
        }
        let form = duration_form(Duration::from_millis(1)..=Duration::from_secs(86_400));
        for (text, millis) in [("500ms", 500), ("90s", 90_000), ("15 m", 900_000), ("1d", 86_400_000)] {
            let time = Duration::from_millis(millis);
            assert_eq!(read_value(&form, text), Some(time), "{text}");
            assert_eq!(read_value(&form, (form.show)(&time).trim_matches('"')), Some(time), "{text}");
        }
        for text in ["", "90", "0s", "2d", "-1s", "1.5h"] {
            assert_eq!(read_value(&form, text), None, "{text}");
        }
        let form = duration_or_never(Duration::from_secs(1)..=Duration::from_secs(60));
        assert_eq!(read_value(&form, "never"), Some(None));
        assert_eq!(read_value(&form, "5s"), Some(Some(Duration::from_secs(5))));
        assert_eq!(read_value(&form, "sometimes"), None);
    }

    #[test]
    fn addresses_may_omit_what_is_usual() {
        for (text, address) in [
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[::]:80", "[::]:80"),
            ("localhost:80", "127.0.0.1:80"),
            (":80", "0.0.0.0:80"),
            ("80", "127.0.0.1:80"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for wrong in ["", ":", "80a", ":70000", "example.com:80", "::80", "127.0.0.1"] {
            assert!(listen_address(wrong).is_err_and(|error| error.contains("127.0.0.1:8080")), "{wrong}");
        }
    }

    #[test]
    fn credits_have_three_decimals() {
        for (text, millis) in [("1", 1000), ("0.05", 50), ("0.5", 500), ("12.345", 12_345), ("0", 0)] {
            assert_eq!(read_value(&credits_form(), text), Some(millis), "{text}");
            assert_eq!(read_value(&credits_form(), &(credits_form().show)(&millis)), Some(millis));
        }
        for text in ["", ".5", "1.", "0.0001", "-1", "1e3", "1000001", "1,5"] {
            assert_eq!(read_value(&credits_form(), text), None, "{text}");
        }
    }

    #[test]
    fn text_form_quotes_one_line() {
        assert_eq!(quote_toml("a\"b\\c\n"), r#""a\"b\\c\u000A""#);
        assert!((text_form().read)(&Raw::Text("two\nlines".to_owned())).is_err());
        assert!((text_form().read)(&Raw::Number("5".to_owned())).is_err());
        assert!(
            read_value(&address_form(), "127.0.0.1:8080").is_some()
                && read_value(&address_form(), "elsewhere:8080").is_none()
        );
    }
}
