//! The web application in a real browser: headless Chromium, on phones and desktops, in both themes and every language.

mod accessibility;
mod flows;
mod hostile;
mod payloads;
mod stage;
