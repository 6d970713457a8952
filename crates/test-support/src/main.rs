//! Runs the fake vendor on the given address, by default on a free local port, until the process is ended.

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the caller reads the address from standard output")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let handle = test_support::serve_on(tokio::net::TcpListener::bind(&address).await?)?;
    println!("{}", handle.base_url());
    std::future::pending().await
}
