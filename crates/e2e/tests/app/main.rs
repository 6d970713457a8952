//! The web application as a browser sees it: pages, forms, cookies and streams over HTTP.

mod account;
mod answers;
mod arrangement;
mod browser;
mod choices;
mod citations;
mod conversations;
mod documents;
mod files;
mod history;
mod hostile;
mod operator;
mod settings;
mod sign_in;
mod single_sign_on;
mod versions;
mod welcome;
