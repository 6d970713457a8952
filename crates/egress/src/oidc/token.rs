//! ID tokens: the signature and the claims of a JSON Web Token (OpenID Connect Core 1.0, section 3.1.3.7).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::time::Timestamp;
use serde_json::Value;

use super::keys::ProviderKey;

/// The longest token, in bytes.
const TOKEN_MAX_BYTES: usize = 32 << 10;
/// The longest subject, in bytes, as the specification has it.
const SUBJECT_MAX_BYTES: usize = 255;
/// The longest email, in bytes.
const EMAIL_MAX_BYTES: usize = 320;
/// The maximum difference to the provider's clock.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The oldest token: it was issued for this sign-in, which takes no longer.
const AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// The reason why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not a signed JSON Web Token, or is too long.
    #[error("the ID token is malformed")]
    Malformed,
    /// Its algorithm does not match a key of the provider.
    #[error("the ID token has an unsupported algorithm")]
    Algorithm,
    /// No key of the provider fits its header.
    #[error("the ID token is signed with an unknown key")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the ID token has a wrong signature")]
    Signature,
    /// Another provider issued it.
    #[error("the ID token has the wrong issuer")]
    Issuer,
    /// It was issued for another client.
    #[error("the ID token has the wrong audience")]
    Audience,
    /// It has expired, or was issued long ago or in the future.
    #[error("the ID token is expired or not yet valid")]
    Time,
    /// It was issued for another sign-in.
    #[error("the ID token has the wrong nonce")]
    Nonce,
    /// It has no subject.
    #[error("the ID token has no subject")]
    Subject,
    /// Neither the token nor the provider's user info has an email.
    #[error("the identity provider sent no email")]
    NoEmail,
    /// The provider has not verified the email.
    #[error("the email is not verified")]
    EmailNotVerified,
    /// The user info belongs to another user.
    #[error("the user info has the wrong subject")]
    OtherSubject,
}

/// The user that a token identifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdTokenClaims {
    pub(super) subject: String,
    /// The email, which the provider has verified; [`TokenError::NoEmail`] if the user info may have it.
    pub(super) email: Result<String, TokenError>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// Verifies the signature of a token with the provider's keys.
///
/// # Errors
/// [`TokenError`]; [`TokenError::UnknownKey`] if newer keys may help.
pub(super) fn verify_token(
    token: &str,
    keys: &[ProviderKey],
    expected: &Expected<'_>,
) -> Result<IdTokenClaims, TokenError> {
    if token.len() > TOKEN_MAX_BYTES {
        return Err(TokenError::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
    let header = decode_json(header)?;
    // An extension that must be understood, and is not.
    if !header["crit"].is_null() {
        return Err(TokenError::Malformed);
    }
    let algorithm = header["alg"].as_str().ok_or(TokenError::Malformed)?;
    if !["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"].contains(&algorithm) {
        return Err(TokenError::Algorithm);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
    let id = match &header["kid"] {
        Value::Null => None,
        id => Some(id.as_str().ok_or(TokenError::Malformed)?),
    };
    let mut fitting = keys.iter().filter(|key| key.is_usable_for(algorithm, id)).peekable();
    if fitting.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    // Without an identifier, each of the provider's few keys may be the one.
    if !fitting.any(|key| key.is_valid_signature(algorithm, message.as_bytes(), &signature)) {
        return Err(TokenError::Signature);
    }
    check_claims(&decode_json(payload)?, expected)
}

fn decode_json(part: &str) -> Result<Value, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| TokenError::Malformed)?;
    if value.is_object() { Ok(value) } else { Err(TokenError::Malformed) }
}

/// Checks the claims of a token whose signature is right.
fn check_claims(claims: &Value, expected: &Expected<'_>) -> Result<IdTokenClaims, TokenError> {
    if claims["iss"].as_str() != Some(expected.issuer) {
        return Err(TokenError::Issuer);
    }
    let is_client = |value: &Value| value.as_str() == Some(expected.client_id);
    let is_for_us = match &claims["aud"] {
        Value::Array(all) => all.iter().any(is_client) && (all.len() == 1 || is_client(&claims["azp"])),
        one => is_client(one),
    };
    if !is_for_us || !(claims["azp"].is_null() || is_client(&claims["azp"])) {
        return Err(TokenError::Audience);
    }
    check_times(claims, expected.now)?;
    if claims["nonce"].as_str() != Some(expected.nonce) {
        return Err(TokenError::Nonce);
    }
    let subject = text_claim(claims, "sub", SUBJECT_MAX_BYTES).ok_or(TokenError::Subject)?;
    Ok(IdTokenClaims { subject, email: verified_email(claims) })
}

/// Returns the email of the user info, which must be that of the subject of a token (section 5.3.2).
///
/// # Errors
/// [`TokenError::OtherSubject`], [`TokenError::NoEmail`], [`TokenError::EmailNotVerified`].
pub(super) fn user_info_email(user_info: &Value, subject: &str) -> Result<String, TokenError> {
    if user_info["sub"].as_str() != Some(subject) {
        return Err(TokenError::OtherSubject);
    }
    verified_email(user_info)
}

fn verified_email(claims: &Value) -> Result<String, TokenError> {
    let email = text_claim(claims, "email", EMAIL_MAX_BYTES).ok_or(TokenError::NoEmail)?;
    // Microsoft Entra has a separate claim: the domain's owner has verified the email.
    let is_verified = ["email_verified", "xms_edov"].iter().any(|name| is_true(&claims[*name]));
    if is_verified { Ok(email) } else { Err(TokenError::EmailNotVerified) }
}

fn text_claim(claims: &Value, name: &str, max_bytes: usize) -> Option<String> {
    let text = claims[name].as_str()?;
    let is_plain = !text.is_empty() && text.len() <= max_bytes && !text.contains(char::is_control);
    is_plain.then(|| text.to_owned())
}

fn check_times(claims: &Value, now: Timestamp) -> Result<(), TokenError> {
    let time = |name: &str| match &claims[name] {
        Value::Null => Ok(None),
        // Some providers send fractions.
        seconds => {
            let seconds = seconds.as_f64().filter(|seconds| (0.0..1e11).contains(seconds));
            let micros = seconds.ok_or(TokenError::Malformed)? * 1e6;
            Ok(Some(Timestamp::from_micros(micros as i64)))
        }
    };
    let (expiry, issued) = (time("exp")?.ok_or(TokenError::Time)?, time("iat")?.ok_or(TokenError::Time)?);
    let begin = time("nbf")?.unwrap_or(issued);
    let is_over = now >= expiry.saturating_add(CLOCK_SKEW) || now >= issued.saturating_add(AGE_MAX);
    let is_early = now.saturating_add(CLOCK_SKEW) < issued || now.saturating_add(CLOCK_SKEW) < begin;
    if is_over || is_early { Err(TokenError::Time) } else { Ok(()) }
}

/// Returns true for `true`, and for the strings and numbers that providers send instead.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::String(text) => text == "true" || text == "1",
        Value::Number(number) => number.as_u64() == Some(1),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests;
