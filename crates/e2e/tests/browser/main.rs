//! The web application in a real browser: headless Chromium, on phones and desktops, in both themes and every language.

mod accessibility;
mod arrangement;
mod citations;
mod flows;
mod hostile;
mod hostile_names;
mod narrow;
mod payloads;
mod pictures;
mod reference;
mod single_sign_on;
mod stage;
mod uploads;
