//! The settings of trace export.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use server::TraceCollector;

use crate::form::text_form;
use crate::source::SettingSources;

/// The maximum number of additional headers.
const HEADERS_MAX: usize = 32;

/// Reads the keys under `otlp`.
pub(crate) fn read_otlp(from: &mut SettingSources) -> Option<TraceCollector> {
    const ENDPOINT: &str = "otlp.endpoint";
    const HEADERS: &str = "otlp.headers";
    let endpoint = from.optional_value(ENDPOINT, text_form());
    let headers = from.secret_value(HEADERS, "otlp.headers_file");
    let service_name = from.value_or_default("otlp.service_name", "causerie".to_owned(), text_form());
    let headers =
        headers.map_or_else(|| Some(HeaderMap::new()), |text| headers_of(&text)).unwrap_or_else(|| {
            from.record_problem(HEADERS, "expected names and values: name=value,name=value");
            HeaderMap::new()
        });
    let endpoint = endpoint?;
    if !is_base(&endpoint) {
        from.record_problem(ENDPOINT, "expected a URL such as \"http://127.0.0.1:4318\"");
    }
    if !server::EXPORTS_TRACES {
        // The variable may be intended for other programs.
        from.record_warning(format!(
            "{ENDPOINT}: this build has no trace export; build it with --features otlp"
        ));
    }
    Some(TraceCollector { endpoint, headers, service_name })
}

fn is_base(endpoint: &str) -> bool {
    let Ok(uri) = endpoint.parse::<Uri>() else { return false };
    let has_scheme = |scheme| uri.scheme_str() == Some(scheme);
    (has_scheme("http") || has_scheme("https"))
        && uri.host().is_some_and(|host| !host.is_empty())
        && uri.query().is_none()
}

/// Parses pairs separated by commas, as in the OpenTelemetry specification: values may be percent-encoded.
fn headers_of(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).take(HEADERS_MAX) {
        let (name, value) = pair.split_once('=')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let mut value = HeaderValue::from_bytes(&decode_percent(value.trim())?).ok()?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Some(headers)
}

fn decode_percent(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn otlp_from_variables(
        pairs: &[(&str, &str)],
    ) -> Result<(Option<TraceCollector>, Vec<String>), Vec<String>> {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = SettingSources::new(Vec::new(), variables);
        let otlp = read_otlp(&mut sources);
        sources.into_effective().map(|(_, warnings)| (otlp, warnings))
    }

    #[test]
    fn read_otlp_prefers_own_variables() {
        assert!(otlp_from_variables(&[]).expect("nothing is wrong with nothing").0.is_none());
        let set = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x%3D1, x-team=law"),
            ("OTEL_SERVICE_NAME", "advice"),
        ];
        let (otlp, warnings) = otlp_from_variables(&set).expect("all can be read");
        let otlp = otlp.expect("a collector");
        assert_eq!((otlp.endpoint.as_str(), otlp.service_name.as_str()), ("http://collector:4318", "advice"));
        let text = |name: &str| otlp.headers[name].to_str().unwrap();
        assert_eq!((text("authorization"), text("x-team")), ("Bearer x=1", "law"));
        assert!(!format!("{otlp:?}").contains("Bearer"));
        assert_eq!(warnings.len(), usize::from(!server::EXPORTS_TRACES), "{warnings:?}");
        let ours = [set[0], ("CAUSERIE_OTLP_ENDPOINT", "https://traces.example.org/otlp")];
        let endpoint = otlp_from_variables(&ours).expect("all can be read").0.map(|otlp| otlp.endpoint);
        assert_eq!(endpoint.as_deref(), Some("https://traces.example.org/otlp"));
    }

    #[test]
    fn read_otlp_refusal_hides_secrets() {
        for endpoint in ["collector:4318", "grpc://collector:4317", "http://", "http://collector?x=1", "/v1"]
        {
            assert!(otlp_from_variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]).is_err(), "{endpoint}");
        }
        for headers in ["s3cret", "a b=s3cret", "a=s3cret%0a", "a=s3cret%zz", "a=s3cret%2"] {
            let problems =
                otlp_from_variables(&[("OTEL_EXPORTER_OTLP_HEADERS", headers)]).expect_err(headers);
            assert!(!problems.concat().contains("s3cret"), "{problems:?}");
        }
    }
}
