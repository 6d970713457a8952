//! Answers on their pages: formulas, files and directions, and the stream that notifies a page of later ones.

use std::io::{BufRead, BufReader};

use e2e::Say;
use e2e::api::{find_parts, id_field};
use serde_json::json;

use crate::browser::{AppFixture, PageAssertions, find_attribute};
use crate::conversations::{ask_question, wait_for_completed_page};

#[test]
fn answer_formulas_and_files_rendered() {
    const ANSWER: &str = "# Heading\n\nIt is \\(a_1^2\\), not `\\(b_1\\)`.\n\n$$\\frac{1}{2}$$\n\n```rust\nx\n```\n\n\
        H~2~O, x<sup>2</sup>\n\n<details>\n<summary>More</summary>\n\nשלום\n\n</details>\n\n\
        [The file](/uploads/x.docx) and [not a file](//evil.example/x.docx)\n\n![A chart](out/chart.png)";
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    stage.vendor.add_script([Say::from_text(ANSWER)]);
    let path = ask_question(&browser, "What is it?");
    let page = wait_for_completed_page(&browser, &path);
    for shown in [
        "<math><semantics><mrow><msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup></mrow>",
        "<annotation encoding=\"application/x-tex\">a_1^2</annotation>",
        "<span class=\"formula\" tabindex=\"0\"><math display=\"block\">",
        "<code>\\(b_1\\)</code>",
        "<code class=\"language-rust\">",
        "<p dir=\"auto\">H<sub>2</sub>O, x<sup>2</sup></p>",
        "<summary>More</summary>",
        "<h3 dir=\"auto\">Heading</h3>",
        "<p dir=\"auto\">שלום</p>",
        "<a href=\"/files/uploads/x.docx?view\" rel=\"noopener noreferrer nofollow\">The file</a> and not a file",
        "<a href=\"/files/out/chart.png?view\" class=\"picture\" rel=\"noopener noreferrer nofollow\">\
         <img src=\"/files/out/chart.png?image\" alt=\"\" loading=\"lazy\">A chart</a>",
    ] {
        assert!(page.contains(shown), "{shown} is not in {page}");
    }
    let printed = browser.get_page(&format!("{path}/print")).expect_page(200);
    assert!(printed.contains("<math display=\"block\">"), "{printed}");
    let chat = api.get_chat(path.strip_prefix("/c/").expect("a conversation")).json();
    let text = &find_parts(&chat["messages"][1], "TEXT")[0]["content"];
    let content = text.as_str().expect("HTML");
    for written in [
        "It is \\(a_1^2\\), not <code>",
        "$$\\frac{1}{2}$$",
        "<pre><code class=\"language-rust\">x",
        "<a href=\"/api/v1/files/uploads/x.docx\" rel=",
        "<a href=\"/api/v1/files/out/chart.png\" data-image=\"\" rel=",
    ] {
        assert!(content.contains(written), "{written} is not in {content}");
    }
    assert!(
        !content.contains("<math") && !content.contains("<img") && !content.contains("evil"),
        "{content}"
    );
}

#[test]
fn conversation_page_streams_external_question() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let path = ask_question(&browser, "First question?");
    let page = wait_for_completed_page(&browser, &path);
    let later = find_attribute(&page, "data-later", "data-later");
    let stream = browser.open_stream(&later);
    assert_eq!(stream.status, 200);
    let lines = BufReader::new(stream.into_body()).lines();
    let chat = path.strip_prefix("/c/").expect("a conversation");
    let second = api.expect_accepted(&json!({ "input": "Second question?", "chatId": chat }));
    let lines: Vec<_> = lines.map(|line| line.expect("a line")).collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("event:")).collect::<Vec<_>>(), ["event: later"]);
    assert!(lines.contains(&format!("id: {}", id_field(&second, "id"))), "{lines:?}");
    // A late one is notified at once.
    let lines = BufReader::new(browser.open_stream(&later).into_body()).lines();
    let lines: Vec<_> = lines.map(|line| line.expect("a line")).collect();
    assert!(lines.iter().any(|line| line == "event: later"), "{lines:?}");
    let page = wait_for_completed_page(&browser, &path);
    let later = find_attribute(&page, "data-later", "data-later");
    let stream = BufReader::new(browser.open_stream(&later).into_body()).lines();
    browser.post_form(&format!("{path}/delete"), &[]).expect_redirect("/");
    let lines: Vec<_> = stream.map(|line| line.expect("a line")).collect();
    assert!(!lines.iter().any(|line| line.starts_with("event:")), "{lines:?}");
    assert_eq!(browser.open_stream(&later).status, 404);
}
