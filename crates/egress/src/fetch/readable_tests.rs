use proptest::prelude::*;

use super::*;

fn page_text(page: &str) -> String {
    read_page(page).blocks.iter().map(|block| block.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn page_links(page: &str) -> Vec<(String, String)> {
    let at = WebUrl::parse("https://example.org/a/b").expect("an address");
    read_page(page).resolve_links(&at).into_iter().map(|link| (link.url.to_string(), link.text)).collect()
}

const LONG: &str = "The tenant may end the lease within three months of the day on which the landlord has received the \
                    notice, unless the contract gives more time. The notice must be in writing, and it must name the \
                    reason for which it is given.";

#[test]
fn read_page_keeps_main_content_only() {
    let page = format!(
        "<html><head><title>Notice &amp; terms</title><style>p{{}}</style><script>'<p>no</p>'</script></head><body>\
         <header><a href=/>Home</a> Ministry of leases</header><nav><ul><li><a href=/x>Menu</a></ul></nav>\
         <main><h1>Notice</h1><p>{LONG}</p><aside>Related: more</aside><ul><li>one<li><p>two</p></ul>\
         <table><tr><th>Term</th><th>Days</th></tr><tr><td><p>A</p><td>30</tr></table></main>\
         <footer>All rights reserved</footer></body></html>"
    );
    assert_eq!(read_page(&page).title, "Notice & terms");
    assert_eq!(page_text(&page), format!("# Notice\n{LONG}\n- one\n- two\nTerm | Days\nA | 30"));
}

#[test]
fn read_page_drops_menus_without_marks() {
    let page = format!(
        "<body class='has-sidebar'><div class='top-menu'>Skip to text</div>\
         <div><a href=/1>First</a> | <a href=/2>Second</a> | <a href=/3>Third</a></div>\
         <div id=content><h2>Notice</h2>{LONG}<p>See <a href=/act>the act</a> as well, of course.</div>\
         <div id='cookie-consent'>We use cookies.</div></body>"
    );
    assert_eq!(page_text(&page), format!("## Notice\n{LONG}\nSee the act as well, of course."));
    let found: Vec<_> = page_links(&page);
    assert_eq!(found[0], ("https://example.org/1".to_owned(), "First".to_owned()));
    assert!(found.contains(&("https://example.org/act".to_owned(), "the act".to_owned())));
}

#[test]
fn read_page_keeps_links_only_page() {
    let page = "<nav><a href=/1>Act one</a></nav><ul><li><a href=/2>Act two</a></ul>";
    assert_eq!(page_text(page), "Act one\n- Act two");
    let short = "<main><p>Little.</p></main><div>The rest of the page is here, outside.</div>";
    assert_eq!(page_text(short), "Little.\nThe rest of the page is here, outside.");
}

#[test]
fn what_nobody_sees_is_not_read() {
    for hidden in [
        "<div hidden>no</div>",
        "<span style='display: none'>no <span>no</span> no</span>",
        "<p style=\"color:red; visibility:hidden\">no<p>",
        "<div aria-hidden=TRUE><p>no</p></div>",
        "<template><p>no</p></template>",
        "<svg><title>no</title><text>no</text></svg>",
        "<select><option>no<option>no</select>",
        "<!-- no -->",
        "<noscript>no</noscript>",
        "<div style=font-size:0>no</div>",
        "<div style='opacity:0.0 !important'>no</div>",
        "<div style='font-size:0px;color:red'>no</div>",
        "\u{200b}\u{e006e}\u{e006f}",
    ] {
        let page = format!("<p>before</p>{hidden}<p>after</p>");
        assert_eq!(page_text(&page), "before\nafter", "{hidden}");
        assert!(page_links(&format!("{hidden}<a hidden href=/x>no</a>")).is_empty());
    }
    for seen in ["<p hidden>no<div>yes</div>", "<p style='opacity:0.5;font-size:10px;display:block'>yes"] {
        assert_eq!(page_text(seen), "yes");
    }
}

#[test]
fn lines_of_programs_and_verses_stay() {
    assert_eq!(page_text("<pre>if a:\n    b\n</pre><p>Street 1<br>City</p>"), "if a:\n    b\nStreet 1\nCity");
    assert_eq!(page_text("<p>an <b>in</b>line <img alt=picture> word</p>"), "an inline picture word");
}

#[test]
fn links_lead_to_pages_each_once() {
    let page = "<base href='/docs/'><a href='x?a=1&amp;b=2#top'>X</a><a href=x?a=1&b=2>again</a><a href=#here>h</a>\
                <a href='javascript:alert(1)'>j</a><a href='mailto:a@b.c'>m</a><a href='https://u:p@x.y/'>u</a>\
                <a href='//other.example'>O\n o</a>";
    let wanted = [("https://example.org/docs/x?a=1&b=2", "X"), ("https://other.example/", "O o")];
    assert_eq!(page_links(page), wanted.map(|(url, text)| (url.to_owned(), text.to_owned())));
    let many: String =
        (0..2 * LINKS_MAX).map(|number| format!("<a href=/{number}>{}</a>", "x".repeat(1000))).collect();
    assert_eq!(page_links(&many).len(), LINKS_MAX);
    assert!(page_links(&many).iter().all(|(_, text)| text.len() <= LINK_TEXT_MAX_BYTES));
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = format!("{}x{}<p>y", "<div>".repeat(20_000), "</div>".repeat(20_000));
    assert_eq!(page_text(&deep), "x\ny");
    let open = format!("{}<p>seen", "<div class=menu></div><span hidden></span>".repeat(2_000));
    assert_eq!(page_text(&open), "seen");
    let paragraph = format!("<p>{}", "word ".repeat(2000));
    let length: usize = read_page(&paragraph.repeat(1000)).blocks.iter().map(|block| block.text.len()).sum();
    assert!(length <= TEXT_MAX_BYTES + paragraph.len(), "{length}");
}

#[test]
fn a_text_is_its_lines() {
    let read = read_plain_text("a\u{0}b\r\n\n  c\u{202e}\n");
    assert_eq!(read.blocks.iter().map(|block| block.text.as_str()).collect::<Vec<_>>(), ["ab", "  c"]);
}

proptest! {
    #[test]
    fn nothing_breaks_it(page in "(<|>|</|div|p|main|nav|table|tr|td|li|a|pre|h1| |hidden|style='display:none'|href=x|č|\\PC){0,80}") {
        let at = WebUrl::parse("https://example.org/").expect("an address");
        let read = read_page(&page);
        prop_assert!(read.blocks.iter().map(|block| block.text.len()).sum::<usize>() <= 16 * page.len() + 16);
        prop_assert!(read.resolve_links(&at).len() <= LINKS_MAX);
    }
}
