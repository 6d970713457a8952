//! Finds the lines of keys in JSON documents.

/// Returns the line, from 1, of the key at the end of this path: `["mcpServers", "registry"]` finds `"registry"`.
/// The result is only meaningful for valid JSON.
pub(crate) fn line_of(text: &str, keys: &[&str]) -> Option<u32> {
    let bytes = text.as_bytes();
    // The current key of each open object; lists have none.
    let mut path: Vec<Option<String>> = Vec::new();
    let (mut at, mut line) = (0, 1_u32);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => line += 1,
            b'{' | b'[' => path.push(None),
            b'}' | b']' => _ = path.pop(),
            b'"' => {
                let end = string_end(bytes, at)?;
                let is_key = text[end..].trim_start().starts_with(':');
                if is_key && let Some(open) = path.last_mut() {
                    *open = serde_json::from_str(&text[at..end]).ok();
                    let found = path.len() == keys.len()
                        && path.iter().zip(keys).all(|(open, key)| open.as_deref() == Some(*key));
                    if found {
                        return Some(line);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the end of the string that begins here, after its quotation mark.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_they_stand() {
        let text = "{\n \"a\": {\"command\": \"b\"},\n \"mcpServers\": {\n  \"\\u0062\": {\n   \"args\": [{\"b\": 1}],\n   \
                    \"command\": \"}\"\n }}}";
        for (keys, line) in [
            (vec!["mcpServers"], Some(3)),
            (vec!["mcpServers", "b"], Some(4)),
            (vec!["mcpServers", "b", "command"], Some(6)),
            (vec!["a", "command"], Some(2)),
            (vec!["b"], None),
            (vec!["mcpServers", "c"], None),
        ] {
            assert_eq!(line_of(text, &keys), line, "{keys:?}");
        }
        for odd in ["", "\"", "{\"a", "]", "{\"a\":\\"] {
            assert_eq!(line_of(odd, &["x"]), None);
        }
    }
}
